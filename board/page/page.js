// The page of one run: joins the parts.
"use strict";

(() => {
  const { dom, text, theme, overview, Panels, Lanes, Tables, StepTime, Live, get } = window.rekindle;
  const { by_id, make, set_attribute, set_text, show } = dom;
  const kChangedPause_ms = 2000;
  const kRedraw_ms = 10000;

  const panels = new Panels({
    get,
    on_error: (error) => {
      if (error) show_notice("warn", `The curves could not be read: ${error.message}`);
      else show(by_id("notice"), false);
    },
  });
  const lanes = new Lanes(by_id("lanes"));
  const tables = new Tables();
  const step_time = new StepTime(by_id("step-time"));
  let summary = null;
  let received_ms = 0; // performance.now() of the last answer with the server's `now`

  // The server's clock, so that ages are right on a computer with a wrong one.
  function now_ms() {
    const server_ms = text.time_ms(summary?.now);
    return server_ms === null ? Date.now() : server_ms + (performance.now() - received_ms);
  }

  function show_quick() {
    overview.show_overview(summary, now_ms());
    step_time.show(summary, now_ms());
    tables.show_trainers(summary, now_ms());
  }

  function show_everything() {
    panels.set_summary(summary);
    show_quick();
    tables.show(summary, now_ms());
    lanes.show(summary, now_ms());
    document.body.dataset.loaded = "true";
  }

  async function load_summary() {
    const answer = await get("api/summary");
    const before = summary;
    summary = answer || {};
    received_ms = performance.now();
    show_everything();
    return before?.step !== summary.step || before?.state !== summary.state;
  }

  async function load() {
    await load_summary();
    await panels.load();
  }

  async function poll() {
    const news = await load_summary();
    if (news) await panels.load();
    return news;
  }

  const asked_for = new Set(); // once for each name, also if the summary never has it

  function on_status(data) {
    const { points, ...fields } = data;
    Object.assign(summary, fields);
    if (fields.now) received_ms = performance.now();
    show_quick();
    panels.add(points);
    // The first values of a curve: `metrics` is not among the fields of an event.
    const news = Object.keys(points || {}).filter(
      (name) => !(summary.metrics || []).includes(name) && !asked_for.has(name),
    );
    if (news.length) on_changed();
    for (const name of news) asked_for.add(name);
  }

  // Several changes at once (eight trainers lost with their node) are one request.
  let changed_timer = null;
  let lacks_values = false; // more came at once than an event has
  function on_changed(data) {
    lacks_values ||= Boolean(data && data.curves);
    if (changed_timer !== null) return;
    changed_timer = setTimeout(
      async () => {
        changed_timer = null;
        if (document.hidden) return;
        const all = lacks_values;
        lacks_values = false;
        try {
          await load_summary();
          if (all || panels.lacks_curves()) await panels.load();
        } catch {
          lacks_values ||= all;
          // The connection is lost: Live notices, too, and loads everything again.
        }
      },
      summary && performance.now() - received_ms > kChangedPause_ms ? 100 : kChangedPause_ms,
    );
  }

  function on_rewound(data) {
    if (text.known(data.step)) panels.rewind(data.step);
  }

  function show_notice(tone, words, action) {
    const notice = by_id("notice");
    set_attribute(notice, "data-tone", tone);
    notice.replaceChildren(make("p", {}, words));
    if (action) {
      const button = make("button", { type: "button" }, action.name);
      button.addEventListener("click", action.call);
      notice.append(button);
    }
    show(notice, true);
  }

  function on_state(state) {
    const words = {
      live: "● live",
      polling: "◌ every 3 s",
      lost: "✕ no connection",
      denied: "✕ no access",
      paused: "‖ paused",
    };
    const tones = { live: "good", polling: "info", lost: "bad", denied: "bad", paused: "muted" };
    set_text(by_id("connection"), words[state.kind]);
    set_attribute(by_id("connection"), "data-tone", tones[state.kind]);
    document.body.dataset.connection = state.kind;
    const again = { name: "Try now", call: () => live.start() };
    if (state.kind === "lost") {
      const old = summary
        ? " What you see is from before then."
        : " If the page never opens, look whether `rekindle-board` still runs.";
      const why = state.message ? ` The server says: ${state.message}.` : "";
      show_notice(
        "bad",
        `No connection since ${text.clock(state.since_ms, Date.now())}.${why}${old} The page tries again by itself.`,
        again,
      );
      set_text(by_id("announcement"), "The connection is lost.");
    } else if (state.kind === "denied") {
      show_notice(
        "bad",
        `This page has no access to the run (${state.message}). ` +
          `Open the link again that \`rekindle ${is_of_board() ? "board" : "status RUN --link"}\` prints.`,
        again,
      );
      set_text(by_id("announcement"), "The page has no access to the run.");
    } else if (state.kind !== "paused") {
      show(by_id("notice"), false);
    }
  }

  // A page from `rekindle status --html` has everything inside of it.
  function start_from_file(node) {
    const data = JSON.parse(node.textContent);
    summary = data.summary || {};
    received_ms = performance.now();
    const written_ms = text.time_ms(summary.now);
    panels.get = async () => panels.answer;
    show_everything();
    panels.set_answer(data.curves || {});
    set_text(by_id("connection"), `written ${text.clock(written_ms, Date.now())}`);
    document.body.dataset.connection = "file";
  }

  function is_of_board() {
    return /\/run\/[^/]+\/$/.test(location.pathname);
  }

  // What the page draws, for tests; the values are copies.
  Object.defineProperty(window.rekindle, "plotted", {
    get: () => ({ curves: panels.plotted(), lanes: lanes.plotted() }),
  });

  theme.connect_select(by_id("theme"));
  const data = by_id("data");
  let live = null;
  if (data) {
    start_from_file(data);
  } else {
    show(by_id("to-board"), is_of_board());
    live = new Live({
      load,
      poll,
      handlers: { status: on_status, changed: on_changed, rewound: on_rewound },
      on_state,
    });
    live.start();
    setInterval(() => {
      if (!summary || document.hidden) return;
      overview.show_overview(summary, now_ms());
      if (!lanes.everything) lanes.show(summary, now_ms());
      tables.show(summary, now_ms());
    }, kRedraw_ms);
  }
})();
