// The list of the runs of a folder.
"use strict";

(() => {
  const { dom, text, theme, overview, Compare, get } = window.rekindle;
  const { by_id, make, set_attribute, set_text, show } = dom;
  const kPoll_ms = 5000;
  const kRetry_ms = [1000, 2000, 4000, 8000, 15000];
  const kFirst = 60;
  const kOrder = ["running", "starting", "pending"];

  const rows = new Map(); // by name, changed in place, so that a checkbox keeps the focus
  const compare = new Compare({ on_error: (error) => show_notice(`A curve could not be read: ${error.message}.`) });
  let runs = [];
  let now_ms = Date.now();
  let everything = false;
  let failures = 0;
  let timer = null;

  function sorted(list) {
    const order = (run) => (kOrder.includes(run.state) ? kOrder.indexOf(run.state) : kOrder.length);
    // Runs at work by name: by time they would change their places at each look.
    const updated = (run) => (order(run) < kOrder.length ? 0 : (text.time_ms(run.updated) ?? 0));
    return [...list].sort((a, b) => order(a) - order(b) || updated(b) - updated(a) || (a.name < b.name ? -1 : 1));
  }

  function field(name, ...content) {
    return make("span", { class: `field ${name}` }, make("span", { class: "field-name" }, `${name} `), ...content);
  }

  function make_row(run) {
    const id = `compare-${rows.size}`;
    const row = {
      check: make("input", { type: "checkbox", id, "data-run": run.name, "aria-label": `Compare ${run.name}` }),
      state: make("strong", { class: "badge" }),
      fill: make("span"),
      words: make("span", { class: "words" }),
      loss: make("span"),
      attempt: make("span"),
      updated: make("span"),
      problem: make("span", { class: "problem" }),
    };
    row.bar = make("span", { class: "progress", "aria-hidden": "true" }, row.fill);
    row.check.addEventListener("change", () => {
      compare.set(run.name, row.check.checked);
      draw();
    });
    row.node = make(
      "li",
      {},
      make("span", { class: "field check" }, row.check),
      make(
        "span",
        { class: "field name" },
        make("a", { href: run.address || `run/${encodeURIComponent(run.name)}/` }, run.name),
        row.problem,
      ),
      make("span", { class: "field state" }, row.state),
      make("span", { class: "field done" }, row.words, row.bar),
      field("loss", row.loss),
      field("attempt", row.attempt),
      field("updated", row.updated),
    );
    rows.set(run.name, row);
    return row;
  }

  function row_of(run) {
    const row = rows.get(run.name) || make_row(run);
    const part = overview.part_done(run);
    overview.show_state(row.state, run.state);
    row.fill.style.width = `${(part ?? 0) * 100}%`;
    set_text(row.words, part === null ? text.kNone : `${text.percent(part)} of ${text.count(run.steps)}`);
    set_attribute(row.words, "title", `step ${text.count(run.step)} of ${text.count(run.steps)}`);
    set_text(row.loss, text.number(run.loss));
    set_text(row.attempt, run.attempt ? text.count(run.attempt) : text.kNone);
    const updated = text.time_ms(run.updated);
    set_text(row.updated, text.ago(updated, now_ms));
    set_attribute(row.updated, "title", text.utc(updated));
    set_text(row.problem, run.problem ? text.shortened(run.problem, 200) : "");
    row.check.checked = compare.has(run.name);
    row.check.disabled = !row.check.checked && compare.full();
    return row.node;
  }

  function draw() {
    const wanted = by_id("filter").value.trim().toLowerCase();
    const fits = (run) => `${run.name} ${run.state} ${run.directory ?? ""}`.toLowerCase().includes(wanted);
    const list = sorted(runs).filter(fits);
    const nodes = list.slice(0, everything ? list.length : kFirst).map(row_of);
    const host = by_id("runs");
    // An equal order is left alone: moving an element takes the focus away from it.
    if (nodes.length !== host.children.length || nodes.some((node, index) => host.children[index] !== node)) {
      const focused = document.activeElement;
      host.replaceChildren(...nodes);
      if (host.contains(focused)) focused.focus();
    }
    const active = runs.filter((run) => run.state === "running").length;
    set_text(by_id("counts"), runs.length ? `${text.count(runs.length)}, ${text.count(active)} running` : "");
    show(by_id("no-runs"), list.length === 0);
    set_text(by_id("no-runs"), runs.length ? "No run has this name or state." : "No run in this folder yet.");
    show(by_id("more"), list.length > kFirst);
    set_text(by_id("more"), everything ? `Show the first ${kFirst}` : `Show all ${text.count(list.length)}`);
    set_attribute(by_id("more"), "aria-expanded", String(everything));
  }

  function show_notice(words) {
    const notice = by_id("notice");
    const button = make("button", { type: "button" }, "Try now");
    button.addEventListener("click", () => load());
    set_attribute(notice, "data-tone", "bad");
    notice.replaceChildren(make("p", {}, words), button);
    show(notice, true);
  }

  function set_connection(words, tone) {
    set_text(by_id("connection"), words);
    set_attribute(by_id("connection"), "data-tone", tone);
  }

  async function load() {
    clearTimeout(timer);
    let wait_ms = kPoll_ms;
    try {
      const answer = await get("api/runs");
      runs = (answer.runs || []).filter((run) => typeof run.name === "string");
      now_ms = text.time_ms(answer.now) ?? Date.now();
      if (compare.is_behind(runs) || failures) compare.refresh();
      failures = 0;
      set_connection("● every 5 s", "good");
      show(by_id("notice"), false);
      draw();
      document.body.dataset.loaded = "true";
    } catch (error) {
      if (error.kind === "denied") {
        set_connection("✕ no access", "bad");
        show_notice(
          `This page has no access to the runs (${error.message}). ` +
            "Open the link again that `rekindle board` prints; its secret is in its file board-token.",
        );
        set_text(by_id("announcement"), "The page has no access to the runs.");
        return;
      }
      wait_ms = kRetry_ms[Math.min(failures++, kRetry_ms.length - 1)];
      set_connection("✕ no connection", "bad");
      const why = error.kind === "answer" ? ` The server says: ${error.message}.` : "";
      show_notice(`No connection.${why} What you see may be old. The page tries again by itself.`);
      set_text(by_id("announcement"), "The connection is lost.");
    }
    clearTimeout(timer);
    if (!document.hidden) timer = setTimeout(load, wait_ms);
  }

  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    if (document.hidden) return;
    load();
    compare.refresh();
  });
  by_id("filter").addEventListener("input", draw);
  by_id("more").addEventListener("click", () => {
    everything = !everything;
    draw();
  });
  by_id("clear").addEventListener("click", () => {
    compare.clear();
    draw();
  });
  // What the plot draws, for tests; the values are copies.
  Object.defineProperty(window.rekindle, "plotted", { get: () => ({ curves: compare.plot.plotted() }) });
  theme.connect_select(by_id("theme"));
  load();
})();
