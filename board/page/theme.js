// Light or dark, before the first paint. Without a choice of the reader the system's setting holds.
"use strict";

window.rekindle = {};

(() => {
  const kKey = "rekindle-theme";
  const changed = new Set();

  // A browser may refuse storage (private windows, file://): the choice then lasts as long as the page.
  function stored() {
    try {
      return localStorage.getItem(kKey) || "auto";
    } catch {
      return "auto";
    }
  }

  function store(choice) {
    try {
      localStorage.setItem(kKey, choice);
    } catch {
      // Nothing depends on it.
    }
  }

  function apply(choice) {
    if (choice === "auto") {
      delete document.documentElement.dataset.theme;
    } else {
      document.documentElement.dataset.theme = choice;
    }
    for (const call of changed) call();
  }

  function connect_select(select) {
    select.value = stored();
    if (!select.value) select.value = "auto";
    select.addEventListener("change", () => {
      store(select.value);
      apply(select.value);
    });
  }

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const call of changed) call();
  });
  apply(stored());

  // Canvases do not follow style sheets: what draws one asks for the colours again at a change.
  window.rekindle.theme = {
    connect_select,
    on_change: (call) => changed.add(call),
    color: (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim(),
  };
})();
