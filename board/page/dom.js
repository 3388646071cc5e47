// Makes and changes elements. What the server sends is text of others (host names, log lines), so that it gets into
// the page as text nodes and attributes only, never as HTML.
"use strict";

(() => {
  const text = window.rekindle.text;

  // make("td", {class: "number", title: "..."}, "12 s", another_element)
  function make(tag, attributes, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value !== null && value !== undefined && value !== false)
        node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children.filter((child) => child !== null && child !== undefined));
    return node;
  }

  const by_id = (id) => document.getElementById(id);

  // Leaves an equal text alone, so that a reader's selection and a screen reader's place stay.
  function set_text(node, value) {
    const wanted = String(value ?? "");
    if (node.textContent !== wanted) node.textContent = wanted;
  }

  function set_attribute(node, name, value) {
    if (value === null || value === undefined || value === "") {
      node.removeAttribute(name);
    } else if (node.getAttribute(name) !== String(value)) {
      node.setAttribute(name, value);
    }
  }

  function show(node, wanted) {
    if (node.hidden === wanted) node.hidden = !wanted;
  }

  // An element with a time of day, and the time in UTC for those who compare it with a log.
  function time(value_ms, now_ms, words) {
    if (!text.known(value_ms)) return make("span", {}, text.kNone);
    return make(
      "time",
      { datetime: new Date(value_ms).toISOString(), title: text.utc(value_ms) },
      words || text.clock(value_ms, now_ms),
    );
  }

  // A box that scrolls sideways must be reached with the keyboard, and only then be a stop of the Tab key.
  const sizes = new ResizeObserver((entries) => {
    for (const entry of entries) update_scroll(entry.target.closest(".scroll") || entry.target);
  });

  function update_scroll(box) {
    const scrolls = box.scrollWidth > box.clientWidth + 1 || box.scrollHeight > box.clientHeight + 1;
    set_attribute(box, "tabindex", scrolls ? "0" : null);
    set_attribute(box, "role", scrolls ? "region" : null);
  }

  function scroll_box(label, content) {
    const box = make("div", { class: "scroll", "aria-label": label }, content);
    sizes.observe(box);
    sizes.observe(content);
    return box;
  }

  window.rekindle.dom = { make, by_id, set_text, set_attribute, show, time, scroll_box };
})();
