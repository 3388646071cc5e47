// The plots of a run: which curves, which steps, how smooth; and the curves behind them.
"use strict";

(() => {
  const { make, by_id, set_text, show } = window.rekindle.dom;
  const { text, curves, Plot } = window.rekindle;
  const kFirstChoice = ["loss", "accuracy", "images_per_second"];
  const kNames = new Map([
    ["images_per_second", "throughput (images/s)"],
    ["lr", "learning rate"],
    ["step_ms", "time of a step"],
  ]);
  const kShort = new Map([
    ["images_per_second", "images/s"],
    ["step_ms", "ms"],
  ]);
  const kPoints = { least: 100, most: 2000 };
  const kTableRows = 100;
  const kRefreshAfter_ms = 5000;

  class Panels {
    // get(path): the JSON of an address, or an error. on_error(error): a request that the reader caused has failed;
    // null: the next one has not.
    constructor({ get, on_error }) {
      this.get = get;
      this.on_error = on_error;
      this.failed = false;
      this.groups = new Map();
      this.zoom = null; // {from, to}, {newest: part of all steps}, or null: all steps
      this.answer = { from: 0, to: 0, last: 0, exact: true, curves: curves.checked({}) };
      this.marks = [];
      this.asked = 0;
      this.loaded_ms = 0;
      this.added = 0;
      this.panels = [...document.querySelectorAll("[data-plot]")].map((host, index) => this.make_panel(host, index));
      this.connect_controls();
    }

    make_panel(host, index) {
      const select = make("select", { class: "curve-choice", "aria-label": `Curve of plot ${index + 1}` });
      const panel = { select, choice: kFirstChoice[index] };
      panel.log = make("input", { type: "checkbox", "aria-label": `Log scale of plot ${index + 1}` });
      panel.log.addEventListener("change", () => this.draw());
      host.append(make("div", { class: "panel-head" }, select, make("label", {}, panel.log, "log")));
      panel.plot = new Plot(host, {
        sync: "steps",
        on_zoom: (from, to) => this.set_zoom(from === null ? null : { from, to }),
      });
      panel.summary = make("span");
      panel.table = make("tbody");
      panel.head = make("tr");
      panel.details = make(
        "details",
        {},
        make("summary", {}, panel.summary, make("u", {}, "Table")),
        window.rekindle.dom.scroll_box(
          `Values of plot ${index + 1}`,
          make("table", {}, make("thead", {}, panel.head), panel.table),
        ),
      );
      panel.details.hidden = true;
      panel.details.addEventListener("toggle", () => this.draw_table(panel));
      host.append(panel.details);
      select.addEventListener("change", () => {
        panel.choice = select.value;
        this.refresh();
      });
      return panel;
    }

    connect_controls() {
      this.smoothing = by_id("smoothing");
      this.range = by_id("range");
      const update = () => {
        set_text(by_id("smoothing-value"), Number(this.smoothing.value).toFixed(2));
        this.draw();
      };
      this.smoothing.addEventListener("input", update);
      this.range.addEventListener("change", () => {
        const part = Number(this.range.value);
        this.set_zoom(part < 1 ? { newest: part } : null);
      });
      by_id("zoom-out").addEventListener("click", () => this.set_zoom(null));
    }

    set_zoom(zoom) {
      if (zoom && zoom.to !== undefined && zoom.to - zoom.from < 2) return;
      if (zoom === null && this.zoom === null) return;
      this.zoom = zoom;
      this.draw(); // at once with the points that are here; the detail follows
      this.refresh();
    }

    set_summary(summary) {
      this.groups = curves.groups(summary.metrics);
      const options = [...this.groups.keys()];
      this.panels.forEach((panel, index) => {
        if (!this.groups.has(panel.choice)) {
          const others = this.panels.filter((other) => other !== panel).map((other) => other.choice);
          panel.choice =
            [kFirstChoice[index], ...options].find((name) => this.groups.has(name) && !others.includes(name)) ||
            kFirstChoice[index];
        }
        const wanted = options.length ? options : [panel.choice];
        if (panel.options !== wanted.join()) {
          panel.options = wanted.join();
          panel.select.replaceChildren(...wanted.map((name) => make("option", { value: name }, this.title(name))));
        }
        panel.select.value = panel.choice;
      });
      this.marks = marks_of(summary);
    }

    title(name) {
      return kNames.get(name) || name.replaceAll("_", " ");
    }

    names() {
      return [...new Set(this.panels.flatMap((panel) => this.groups.get(panel.choice) || []))];
    }

    // The names have changed since the curves were asked for: a first evaluation, for example.
    lacks_curves() {
      return this.asked_names !== this.names().join();
    }

    points() {
      const width = Math.max(...this.panels.map((panel) => panel.plot.area.clientWidth || 600));
      return Math.min(kPoints.most, Math.max(kPoints.least, width));
    }

    // Gets the curves of the range that is shown.
    async load() {
      const names = this.names();
      if (!names.length) return this.draw();
      let range = "";
      if (this.zoom) {
        const { from, to } = this.shown_range();
        range = `&from=${from}&to=${to}`;
      }
      this.asked_names = names.join();
      const number = ++this.asked;
      const answer = await this.get(
        `api/curves?names=${names.map(encodeURIComponent).join()}${range}&points=${this.points()}`,
      );
      if (number !== this.asked) return; // a newer request is under way
      this.set_answer(answer);
    }

    set_answer(answer) {
      this.answer = { ...answer, curves: curves.checked(answer.curves) };
      this.last = Math.max(answer.last || 0, ...Object.values(this.answer.curves).map(curves.last_step));
      this.loaded_ms = performance.now();
      this.added = 0;
      this.draw();
      if (this.failed) this.on_error(null);
      this.failed = false;
    }

    refresh() {
      this.load().catch((error) => {
        this.failed = true;
        this.on_error(error);
      });
    }

    // The steps between the left and the right border of the plots.
    shown_range() {
      const last = this.last || 0;
      if (!this.zoom) return { from: 0, to: last };
      if (this.zoom.newest) return { from: Math.floor(last * (1 - this.zoom.newest)), to: last };
      return this.zoom;
    }

    // points: {"loss": [[87, 0.36]]}, from a live event.
    add(points) {
      const limit = this.zoom && !this.zoom.newest ? this.zoom.to : Infinity;
      for (const [name, list] of Object.entries(points || {})) {
        if (!Array.isArray(list) || !list.length) continue;
        this.last = Math.max(this.last || 0, list[list.length - 1][0]);
        const curve = this.answer.curves[name];
        if (curve)
          this.added = Math.max(
            this.added,
            curves.append(
              curve,
              list.filter(([step]) => step <= limit),
            ),
          );
        else if (this.names().includes(name))
          this.answer.curves[name] = { step: list.map((p) => p[0]), value: list.map((p) => p[1]) };
      }
      this.total_added = (this.total_added || 0) + this.added;
      this.draw();
      // So that the lists do not grow for days: the server thins again.
      if (this.total_added > this.points() && performance.now() - this.loaded_ms > kRefreshAfter_ms) {
        this.total_added = 0;
        this.refresh();
      }
    }

    rewind(step) {
      for (const curve of Object.values(this.answer.curves)) curves.rewind(curve, step);
      this.last = Math.min(this.last || 0, step);
      this.draw();
    }

    lines(panel) {
      const names = this.groups.get(panel.choice) || [panel.choice];
      return names
        .filter((name) => this.answer.curves[name])
        .map((name, index) => {
          const curve = this.answer.curves[name];
          const test = index > 0 || name.startsWith("test_");
          return {
            name,
            label: kShort.get(name) || this.title(name),
            step: curve.step,
            value: curves.middle_of(curve),
            min: curve.min,
            max: curve.max,
            color: test ? "line-2" : "line-1",
            dash: test ? [6, 4] : undefined,
            points: test,
            smoothing: test ? 0 : Number(this.smoothing.value),
          };
        });
    }

    draw() {
      const { from, to } = this.shown_range();
      show(by_id("zoom-out"), this.zoom !== null);
      this.range.value = !this.zoom ? "1" : this.zoom.newest ? String(this.zoom.newest) : "zoom";
      for (const panel of this.panels) {
        const lines = this.lines(panel);
        const label = `${this.title(panel.choice)} over steps ${text.count(from)} to ${text.count(to)}`;
        panel.plot.show(lines, { label, from, to, log: panel.log.checked, marks: this.marks });
        set_text(panel.summary, summary_of(lines));
        show(panel.details, lines.length > 0);
        this.draw_table(panel);
      }
    }

    draw_table(panel) {
      if (!panel.details.open) return;
      const lines = this.lines(panel);
      const [steps, ...values] = curves.align(lines.map((line) => ({ step: line.step, values: line.value })));
      const stride = Math.max(1, Math.ceil(steps.length / kTableRows));
      const rows = steps.map((step, index) => index).filter((index) => (steps.length - 1 - index) % stride === 0);
      panel.head.replaceChildren(
        ...["step", ...lines.map((line) => line.label)].map((name, at) =>
          make("th", { scope: "col", class: at ? "number" : null }, name),
        ),
      );
      panel.table.replaceChildren(
        ...rows.map((index) =>
          make(
            "tr",
            {},
            make("th", { scope: "row" }, text.count(steps[index])),
            ...values.map((list) =>
              make("td", { class: "number" }, list[index] === null ? "" : text.number(list[index])),
            ),
          ),
        ),
      );
    }

    plotted() {
      return Object.assign({}, ...this.panels.map((panel) => panel.plot.plotted()));
    }
  }

  // One sentence that says what the curve looks like.
  function summary_of(lines) {
    const line = lines[0];
    if (!line?.step.length) return "";
    const place = (index) => `${text.number(line.value[index])} (step ${text.count(line.step[index])})`;
    const extreme = (better) =>
      line.value.reduce((best, value, index) => (better(value, line.value[best]) ? index : best), 0);
    return `Lowest ${place(extreme((a, b) => a < b))}, highest ${place(extreme((a, b) => a > b))}. `;
  }

  function marks_of(summary) {
    const marks = [];
    let attempt = 1;
    for (const generation of summary.generations || []) {
      if (generation.attempt !== attempt)
        marks.push({ kind: "attempt", step: generation.step, name: `attempt ${generation.attempt}` });
      attempt = generation.attempt;
    }
    for (const event of summary.events || []) {
      if (event.event === "lost") marks.push({ kind: "lost", step: event.step });
    }
    return marks.filter((mark) => text.known(mark.step));
  }

  window.rekindle.Panels = Panels;
})();
