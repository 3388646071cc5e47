// The top of the page: state, progress, the figures that matter most, and whether anything is wrong.
"use strict";

(() => {
  const { make, by_id, set_text, set_attribute, time } = window.rekindle.dom;
  const { text } = window.rekindle;

  // The sign says the same as the colour.
  const kStates = {
    new: ["○", "new", "muted"],
    starting: ["◔", "starting", "info"],
    running: ["▶", "running", "good"],
    pending: ["‖", "pending", "info"],
    finished: ["✓", "finished", "good"],
    saved: ["■", "saved", "info"],
    failed: ["✕", "failed", "bad"],
    lost: ["✕", "lost", "bad"],
  };
  const kUnknown = ["?", "unknown", "muted"];
  const kStale_ms = 60000;
  const kLongest = 300; // letters of a problem's text; the tables have all of them

  const state_of = (state) => (Object.hasOwn(kStates, state ?? "") ? kStates[state] : kUnknown);

  function show_state(node, state) {
    const [sign, words, tone] = state_of(state);
    set_text(node, `${sign} ${words}`);
    set_attribute(node, "data-tone", tone);
  }

  const part_done = (run) => (text.known(run.step) && run.steps > 0 ? Math.min(1, run.step / run.steps) : null);

  // An interruption within an attempt begins a new generation; the first generation of an attempt is no recovery.
  function recoveries(summary) {
    if (text.known(summary.recoveries)) return summary.recoveries;
    const list = summary.generations || [];
    return list.filter((generation, index) => index > 0 && list[index - 1].attempt === generation.attempt).length;
  }

  function problems(summary, now_ms) {
    const list = [];
    const add = (tone, words, link) => list.push({ tone, words: text.shortened(words, kLongest), link });
    if (summary.problem) add("bad", summary.problem);
    const attempts = summary.attempts || [];
    const why = attempts[attempts.length - 1]?.why;
    if (summary.state === "failed") add("bad", `The run ended with an error${why ? `: ${why}` : "."}`, "attempts");
    if (summary.state === "lost") {
      const next = "The command that began the run goes on from the newest checkpoint.";
      add("bad", `The run ended without a report: its processes or its machine are gone. ${next}`, "attempts");
    }
    const lost = (summary.lanes || []).filter((lane) => lane.end && lane.attempt === summary.attempt);
    if (lost.length) {
      const newest = lost[lost.length - 1];
      const which = `${newest.host ?? "?"} ${newest.device ?? ""}, ${newest.end}`;
      add(
        "warn",
        `${text.plural(lost.length, "trainer")} lost in this attempt${lost.length > 1 ? ", newest" : ""}: ${which}`,
        "life",
      );
    }
    const slow = (summary.trainers || []).filter((trainer) => trainer.slow);
    if (slow.length) {
      const names = slow
        .slice(0, 3)
        .map((trainer) => `rank ${trainer.rank} on ${trainer.host}`)
        .join(", ");
      add(
        "warn",
        `${text.plural(slow.length, "trainer")} slower than the others: ${names}${slow.length > 3 ? ", …" : ""}`,
        "trainers",
      );
    }
    if (summary.voided_steps > 0)
      add(
        "warn",
        `${text.plural(summary.voided_steps, "step")} changed nothing: the loss or a gradient was not finite.`,
        "curves",
      );
    const updated = text.time_ms(summary.updated);
    if (summary.state === "running" && text.known(updated) && now_ms - updated > kStale_ms) {
      add("warn", `No news from the run for ${text.seconds((now_ms - updated) / 1000)}.`);
    }
    const errors = (summary.warnings || []).length;
    if (errors) {
      const at = text.clock(text.time_ms(summary.warnings[errors - 1].at), now_ms);
      add("warn", `${text.plural(errors, "warning")}${errors > 1 ? ", newest" : ""} at ${at}`, "warnings");
    }
    return list;
  }

  function show_problems(summary, now_ms) {
    const list = problems(summary, now_ms);
    const nodes = list.map((problem) =>
      make(
        "li",
        { "data-tone": problem.tone },
        make("span", { class: "sign", "aria-hidden": "true" }, problem.tone === "bad" ? "✕" : "▲"),
        make(
          "span",
          { class: "words" },
          problem.words,
          " ",
          problem.link ? make("a", { href: `#${problem.link}-title` }, "Details") : null,
        ),
      ),
    );
    if (!nodes.length) {
      nodes.push(
        make(
          "li",
          { "data-tone": "good" },
          make("span", { class: "sign", "aria-hidden": "true" }, "✓"),
          make("span", { class: "words" }, "Nothing is wrong: no lost or slow trainer, no warning."),
        ),
      );
    }
    const key = JSON.stringify(list);
    const host = by_id("problems");
    if (host.shown_key === key) return;
    host.shown_key = key;
    host.replaceChildren(...nodes);
  }

  function show_progress(summary) {
    const part = part_done(summary);
    by_id("progress-fill").style.width = `${(part ?? 0) * 100}%`;
    const bar = by_id("progress");
    set_attribute(bar, "aria-valuenow", part === null ? null : Math.floor(part * 100));
    const epoch = text.known(summary.epoch) ? `, epoch ${summary.epoch + 1}` : "";
    set_attribute(bar, "aria-valuetext", `step ${text.count(summary.step)} of ${text.count(summary.steps)}${epoch}`);
    set_text(by_id("percent"), text.percent(part));
    set_text(by_id("step"), text.count(summary.step));
    set_text(by_id("steps"), text.count(summary.steps));
    set_text(by_id("epoch"), epoch.replace(", ", ""));
  }

  function figure(name, value, note, tone) {
    set_text(by_id(`${name}-value`), value);
    set_text(by_id(`${name}-note`), note ?? "");
    set_attribute(by_id(`${name}-value`), "data-tone", tone);
  }

  function show_figures(summary, now_ms) {
    const running = summary.state === "running";
    figure("loss", text.number(summary.loss));
    const unit = (value, words) => (text.known(value) ? words : "");
    figure("speed", text.number(summary.images_per_second), unit(summary.images_per_second, "images/s"));
    const left = running && text.known(summary.seconds_left) ? summary.seconds_left : null;
    figure(
      "left",
      left === null ? text.kNone : text.seconds(left),
      left === null ? "" : `until ${text.clock(now_ms + left * 1000, now_ms)}`,
    );
    const at_work = ["running", "starting"].includes(summary.state);
    const limit = at_work ? text.time_ms(summary.time_limit) : null;
    const until_limit = (limit - now_ms) / 1000;
    const early = limit !== null && left !== null && until_limit < left;
    figure(
      "limit",
      limit === null ? text.kNone : until_limit > 0 ? text.seconds(until_limit) : "over",
      limit === null ? "" : `${text.clock(limit, now_ms)}${early ? ", before the end" : ""}`,
    );
    const saved = (summary.checkpoints || []).filter((checkpoint) => checkpoint.there);
    const newest = saved[saved.length - 1];
    const saved_ms = text.time_ms(newest?.at);
    figure(
      "checkpoint",
      saved_ms === null ? text.kNone : text.ago(saved_ms, now_ms),
      newest ? `step ${text.count(newest.step)}` : "",
    );
    figure("attempt", text.count(summary.attempt), summary.job ? `job ${summary.job}` : "");
    figure("recoveries", text.count(recoveries(summary)), "within attempts");
    figure("restart", text.percent(summary.training_ratio), unit(summary.training_ratio, "useful time"));
    const trainers = (summary.trainers || []).filter((trainer) => trainer.rank !== -1);
    const spares = (summary.trainers || []).length - trainers.length;
    const slow = trainers.filter((trainer) => trainer.slow).length;
    figure(
      "trainers-count",
      text.count(trainers.length),
      [slow ? `▲ ${slow} slow` : "", spares ? text.plural(spares, "spare") : ""].filter(Boolean).join(", "),
      slow ? "warn" : null,
    );
  }

  function show_overview(summary, now_ms) {
    const name = summary.name || "run";
    set_text(by_id("name"), name);
    set_text(by_id("directory"), summary.directory ?? "");
    show_state(by_id("state"), summary.state);
    show_progress(summary);
    show_figures(summary, now_ms);
    show_problems(summary, now_ms);
    const updated = text.time_ms(summary.updated);
    by_id("updated").replaceChildren(
      "The run wrote ",
      time(updated, now_ms, text.ago(updated, now_ms)),
      `. Times are in ${text.zone()}.`,
    );
    const part = part_done(summary);
    const [sign, words] = state_of(summary.state);
    const begin = summary.state === "running" && part !== null ? text.percent(part) : `${sign} ${words}`;
    document.title = `${begin} · ${name} · rekindle`;
    // Only a change is spoken, not each step.
    set_text(by_id("announcement"), `${name} is ${words}`);
  }

  window.rekindle.overview = { show_overview, show_state, state_of, part_done, recoveries };
})();
