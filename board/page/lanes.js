// The life of the trainers: a row for each place (host and device), a bar for each trainer that was there, with when it
// trained, waited or was slow, and how it ended. The row above them shows the attempts.
"use strict";

(() => {
  const { make, by_id, set_attribute, set_text, show, time } = window.rekindle.dom;
  const { text } = window.rekindle;
  const kFirst = 16;
  const kStates = ["training", "waiting", "slow", "pending"];

  const spans_of = (lane) =>
    (Array.isArray(lane.spans) ? lane.spans : []).filter((span) => text.known(text.time_ms(span.from)));

  // Puts lanes into rows: the trainers of one host and device follow each other in one row as long as they do not
  // overlap; several CPU trainers of one host have rows of their own. A worker that comes back gets its old row.
  function rows_of(lanes) {
    const rows = [];
    const places = new Map();
    for (const lane of lanes) {
      const spans = spans_of(lane);
      const from_ms = spans.length ? text.time_ms(spans[0].from) : 0;
      const to_ms = spans.length ? (text.time_ms(spans[spans.length - 1].to) ?? Infinity) : 0;
      const place = JSON.stringify([lane.host, lane.device]);
      const free = (places.get(place) || []).filter((row) => row.to_ms <= from_ms);
      let row = free.find((one) => one.worker === lane.worker) || free[0];
      if (!row) {
        row = { host: lane.host, device: lane.device, lanes: [] };
        places.set(place, [...(places.get(place) || []), row]);
        rows.push(row);
      }
      row.lanes.push({
        ...lane,
        spans,
        from_ms,
        to_ms,
        rejoined: row.worker === lane.worker && row.attempt === lane.attempt,
      });
      Object.assign(row, { to_ms, worker: lane.worker, attempt: lane.attempt });
    }
    return rows;
  }

  // Rows with a lost or slow trainer first, then those at work.
  function urgency(row) {
    const last = row.lanes[row.lanes.length - 1];
    if (row.lanes.some((lane) => lane.end)) return 0;
    if (last.spans[last.spans.length - 1]?.state === "slow") return 1;
    return row.to_ms === Infinity ? 2 : 3;
  }

  class Lanes {
    constructor(host) {
      this.list = make("ol", { class: "lanes" });
      this.axis = make("span", { class: "lane-axis" });
      this.button = make("button", { type: "button", class: "more", hidden: true });
      this.select = by_id("lane-attempt");
      this.everything = false;
      this.drawn = [];
      this.button.addEventListener("click", () => {
        this.everything = !this.everything;
        this.draw();
      });
      this.select.addEventListener("change", () => this.draw());
      host.append(this.list, this.button);
    }

    show(summary, now_ms) {
      this.summary = summary;
      // A run that has ended stops at its last sign of life, not now.
      const live = ["running", "starting", "pending"].includes(summary.state);
      this.now_ms = live ? now_ms : (text.time_ms(summary.updated) ?? now_ms);
      this.update_choice();
      this.draw();
    }

    update_choice() {
      const attempts = [...new Set((this.summary.lanes || []).map((lane) => lane.attempt))].sort((a, b) => b - a);
      if (this.attempts !== attempts.join()) {
        this.attempts = attempts.join();
        const chosen = this.select.value;
        this.select.replaceChildren(
          make("option", { value: "all" }, "all attempts"),
          ...attempts.map((attempt) => make("option", { value: String(attempt) }, `attempt ${attempt}`)),
        );
        this.select.value = attempts.map(String).includes(chosen) ? chosen : "all";
      }
      show(this.select.parentElement, attempts.length > 1);
    }

    draw() {
      const wanted = this.select.value;
      const lanes = (this.summary.lanes || []).filter((lane) => wanted === "all" || String(lane.attempt) === wanted);
      const rows = rows_of(lanes).sort((a, b) => urgency(a) - urgency(b));
      this.set_range(rows);
      this.drawn = [];
      const shown = this.everything ? rows : rows.slice(0, kFirst);
      const above = lanes.length ? [this.axis_row(), this.attempts_row()] : [];
      this.list.replaceChildren(...above, ...shown.map((row) => this.row(row)));
      show(by_id("no-lanes"), lanes.length === 0);
      show(this.button, rows.length > kFirst);
      set_text(this.button, this.everything ? `Show the first ${kFirst}` : `Show all ${text.count(rows.length)} rows`);
      set_attribute(this.button, "aria-expanded", String(this.everything));
    }

    set_range(rows) {
      const lanes = rows.flatMap((row) => row.lanes).filter((lane) => lane.spans.length);
      const ends = lanes.map((lane) => (lane.to_ms === Infinity ? this.now_ms : lane.to_ms));
      this.from_ms = lanes.reduce((least, lane) => Math.min(least, lane.from_ms), Infinity);
      this.to_ms = ends.reduce((most, end) => Math.max(most, end), this.from_ms + 1000);
    }

    place(at_ms) {
      return Math.max(0, Math.min(100, ((at_ms - this.from_ms) / (this.to_ms - this.from_ms)) * 100));
    }

    // One bar; `span` as in the summary.
    bar(span, name) {
      const from_ms = text.time_ms(span.from);
      const to_ms = text.time_ms(span.to) ?? this.now_ms;
      const left = this.place(from_ms);
      const width = Math.max(0, this.place(to_ms) - left);
      const state = kStates.includes(span.state) ? span.state : "other";
      const words = `${span.state} for ${text.seconds((to_ms - from_ms) / 1000)}, from ${text.clock(from_ms, this.now_ms)}`;
      const node = make("span", { class: `span ${state}`, title: `${name}: ${words}` });
      node.style.left = `${left}%`;
      node.style.width = `${width}%`;
      return { node, words, from: span.from, to: span.to ?? null, state: span.state, left, width };
    }

    row(row) {
      const track = make("span", { class: "track", "aria-hidden": "true" });
      const notes = [];
      const words = [];
      const note = (tone, ...children) => notes.push(make("span", { class: "note", "data-tone": tone }, ...children));
      for (const lane of row.lanes) {
        const name = `${lane.trainer}, attempt ${lane.attempt}`;
        const bars = lane.spans.map((span) => this.bar(span, name));
        track.append(...bars.map((bar) => bar.node));
        words.push(`Trainer ${name}: ${bars.map((bar) => bar.words).join("; ")}.`);
        if (lane.rejoined) {
          track.append(this.mark("rejoin", "↻", lane.from_ms));
          note("good", "↻ rejoined ", time(lane.from_ms, this.now_ms));
        }
        if (lane.end) {
          const at_ms = Number.isFinite(lane.to_ms) ? lane.to_ms : this.now_ms;
          track.append(this.mark("lost", "✕", at_ms));
          note("bad", "✕ lost ", time(at_ms, this.now_ms), `: ${lane.end}`);
        }
        this.drawn.push({ trainer: lane.trainer, attempt: lane.attempt, end: lane.end ?? null, spans: bars });
      }
      const last = row.lanes[row.lanes.length - 1];
      if (last.spans[last.spans.length - 1]?.state === "slow") note("warn", "▲ slow");
      return make(
        "li",
        {},
        make(
          "span",
          { class: "lane-name", title: row.lanes.map((lane) => lane.trainer).join("\n") },
          `${row.host ?? "?"} ${row.device ?? ""}`,
        ),
        track,
        make("span", { class: "for-screen-readers" }, words.join(" ")),
        make("span", { class: "lane-end" }, ...notes),
      );
    }

    mark(kind, sign, at_ms) {
      const node = make("span", { class: `lane-mark ${kind}` }, sign);
      node.style.left = `${this.place(at_ms)}%`;
      return node;
    }

    // The attempts, and the time between them in which the job waited. The table of attempts says the same in words.
    attempts_row() {
      const bars = [];
      for (const attempt of this.summary.attempts || []) {
        const began_ms = text.time_ms(attempt.began);
        const ended_ms = text.time_ms(attempt.ended) ?? this.now_ms;
        if (!text.known(began_ms) || ended_ms <= this.from_ms || began_ms >= this.to_ms) continue;
        if (attempt.pending_seconds > 0 && began_ms > this.from_ms) {
          const from = new Date(began_ms - attempt.pending_seconds * 1000).toISOString();
          bars.push(this.bar({ from, to: attempt.began, state: "pending" }, "job").node);
        }
        const { node } = this.bar(
          { from: attempt.began, to: attempt.ended, state: "attempt" },
          `attempt ${attempt.attempt}`,
        );
        node.className = "span attempt";
        node.append(String(attempt.attempt));
        bars.push(node);
      }
      return make(
        "li",
        { class: "attempts-lane", "aria-hidden": "true" },
        make("span", { class: "lane-name" }, "Attempts"),
        make("span", { class: "track" }, ...bars),
      );
    }

    axis_row() {
      const days = this.to_ms - this.from_ms > 36 * 3600e3;
      const short = this.to_ms - this.from_ms < 600e3;
      const ticks = [0, 0.25, 0.5, 0.75, 1].map((part) => {
        const at_ms = this.from_ms + part * (this.to_ms - this.from_ms);
        const at = new Date(at_ms);
        const clock = short ? text.clock(at_ms, at_ms) : text.hour_minute(at);
        const node = make("span", {}, days ? `${text.day(at)} ${clock}` : clock);
        node.style.left = `${part * 100}%`;
        return node;
      });
      this.axis.replaceChildren(...ticks);
      return make("li", { class: "axis-row", "aria-hidden": "true" }, this.axis);
    }

    plotted() {
      return this.drawn.map(({ trainer, attempt, end, spans }) => ({
        trainer,
        attempt,
        end,
        spans: spans.map(({ from, to, state, left, width }) => ({ from, to, state, left, width })),
      }));
    }
  }

  window.rekindle.Lanes = Lanes;
})();
