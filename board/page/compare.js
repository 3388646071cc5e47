// One curve of several runs in one plot.
"use strict";

(() => {
  const { by_id, set_text, show } = window.rekindle.dom;
  const { text, curves, Plot, get } = window.rekindle;
  const kMost = 8; // as many as there are colours
  const kDashes = [undefined, [8, 4], [3, 3], [10, 3, 2, 3], [1, 3], [12, 4], [5, 2], [8, 3, 2, 3, 2, 3]];

  class Compare {
    // on_error(error): a run's curve could not be read.
    constructor({ on_error }) {
      this.on_error = on_error;
      this.chosen = []; // names of runs; the place in the list is the colour, so that no run changes its colour
      this.answers = new Map();
      this.loading = 0; // requests for curves that are under way
      this.failed = false;
      this.steps = new Map(); // of the runs that are drawn, when their curves were asked for
      this.zoom = null;
      this.asked = 0;
      this.plot = new Plot(by_id("compare-plot"), {
        on_zoom: (from, to) => this.set_zoom(from === null ? null : { from, to }),
      });
      this.curve = by_id("curve");
      this.smoothing = by_id("smoothing");
      this.log = by_id("log");
      this.curve.addEventListener("change", () => {
        this.answers.clear(); // they are of another curve
        this.refresh();
      });
      this.smoothing.addEventListener("input", () => this.draw());
      this.log.addEventListener("change", () => this.draw());
      by_id("zoom-out").addEventListener("click", () => this.set_zoom(null));
    }

    has(name) {
      return this.chosen.includes(name);
    }

    full() {
      return this.chosen.filter((name) => name !== null).length >= kMost;
    }

    set(name, wanted) {
      const place = this.chosen.indexOf(wanted ? null : name);
      if (place >= 0) this.chosen[place] = wanted ? name : null;
      else if (wanted) this.chosen.push(name);
      this.refresh();
    }

    // Whether a run that is drawn has made steps since its curve was asked for, or could not be read.
    is_behind(runs) {
      if (this.loading > 0) return false; // the next look asks
      const chosen = runs.filter((run) => this.has(run.name));
      const behind = this.failed || chosen.some((run) => this.steps.get(run.name) !== run.step);
      for (const run of chosen) this.steps.set(run.name, run.step);
      return behind;
    }

    clear() {
      this.chosen = [];
      this.zoom = null;
      this.draw();
    }

    set_zoom(zoom) {
      if (zoom && zoom.to - zoom.from < 2) return;
      this.zoom = zoom;
      this.draw();
      this.refresh();
    }

    refresh() {
      ++this.loading;
      this.failed = false;
      this.load()
        .catch((error) => {
          this.failed = true;
          this.on_error(error);
        })
        .finally(() => --this.loading);
    }

    async load() {
      const names = this.chosen.filter((name) => name !== null);
      const number = ++this.asked;
      const curve = this.curve.value;
      show(by_id("compare"), names.length > 0); // before the width is measured
      const points = Math.min(2000, Math.max(100, this.plot.area.clientWidth || 800));
      const range = this.zoom ? `&from=${this.zoom.from}&to=${this.zoom.to}` : "";
      const answers = await Promise.allSettled(
        names.map((name) => get(`run/${encodeURIComponent(name)}/api/curves?names=${curve}${range}&points=${points}`)),
      );
      if (number !== this.asked) return;
      answers.forEach((answer, index) => {
        if (answer.status === "rejected") return; // what is drawn stays
        const found = curves.checked(answer.value.curves);
        this.answers.set(names[index], { last: answer.value.last || 0, curve: found[curve] });
      });
      this.draw();
      const failed = answers.find((answer) => answer.status === "rejected");
      if (failed) throw failed.reason;
    }

    draw() {
      set_text(by_id("smoothing-value"), Number(this.smoothing.value).toFixed(2));
      show(
        by_id("compare"),
        this.chosen.some((name) => name !== null),
      );
      show(by_id("zoom-out"), this.zoom !== null);
      const lines = [];
      const missing = [];
      this.chosen.forEach((name, place) => {
        if (name === null) return;
        const curve = this.answers.get(name)?.curve;
        if (!curve?.step.length) {
          missing.push(name);
          return;
        }
        lines.push({
          name,
          label: text.shortened(name, 60),
          step: curve.step,
          value: curves.middle_of(curve),
          min: curve.min,
          max: curve.max,
          color: `line-${(place % kMost) + 1}`,
          dash: kDashes[place % kMost],
          smoothing: Number(this.smoothing.value),
        });
      });
      const last = lines.reduce((most, line) => Math.max(most, curves.last_step(line)), 0);
      const { from, to } = this.zoom || { from: 0, to: last };
      const what = this.curve.selectedOptions[0].textContent;
      const label = `${what} of ${text.plural(lines.length, "run")} over steps ${text.count(from)} to ${text.count(to)}`;
      this.plot.show(lines, { label, from, to, log: this.log.checked, marks: [] });
      set_text(
        by_id("compare-summary"),
        missing.length ? `No such values here: ${missing.map((name) => text.shortened(name, 60)).join(", ")}.` : "",
      );
    }
  }

  window.rekindle.Compare = Compare;
})();
