// One plot: lines over steps, with a cursor, drawn by uPlot. The plot is a slider for the keyboard and for screen
// readers: the arrow keys move the cursor from point to point, and its value is read out.
"use strict";

(() => {
  const { make, set_attribute, show } = window.rekindle.dom;
  const { align, extent, nearest } = window.rekindle.curves;
  const { axes, parts_of, y_scale, draw_marks } = window.rekindle.plot_style;
  const { text, theme } = window.rekindle;
  let last_id = 0;

  class Plot {
    // on_zoom(from, to): a range was chosen; on_zoom(null): all of it.
    constructor(host, { on_zoom, sync }) {
      this.on_zoom = on_zoom;
      this.sync = sync;
      this.view = { from: 0, to: 1, log: false, marks: [] };
      this.lines = [];
      this.uplot = null;
      const id = `keys-${++last_id}`;
      this.readout = make("p", { class: "readout" });
      const empty = { "aria-label": "Curve", "aria-valuenow": 0, "aria-valuetext": "no values yet" };
      this.area = make("div", { class: "plot", tabindex: "0", role: "slider", "aria-describedby": id, ...empty });
      this.help = make(
        "span",
        { class: "for-screen-readers", id },
        "Arrow keys move the cursor, plus zooms in, minus zooms out.",
      );
      this.empty = make("p", { class: "empty", hidden: true }, "No values yet.");
      host.append(this.readout, this.area, this.empty, this.help);
      this.area.addEventListener("keydown", (event) => this.on_key(event));
      this.area.addEventListener("blur", () => this.move_cursor(null));
      new ResizeObserver(() => this.resize()).observe(this.area);
      theme.on_change(() => this.draw());
    }

    // lines: [{name, label, step, value, min, max, color, dash, points, smoothing}], `color` the name of a CSS
    // variable. view: {label, from, to, log, marks: [{step, kind, name}]}.
    show(lines, view) {
      this.lines = lines.filter((line) => line.step.length > 0);
      this.view = view;
      this.draw();
    }

    draw() {
      const has_values = this.lines.length > 0;
      show(this.area, has_values);
      show(this.readout, has_values);
      show(this.empty, !has_values);
      if (!has_values) {
        this.uplot?.destroy();
        this.uplot = null;
        return;
      }
      this.parts = this.lines.flatMap((line) => parts_of(line, this.view));
      const data = align(this.parts);
      // Within a factor of 2 a logarithmic axis looks like a linear one, but uPlot finds no numbers for it.
      const range = extent(data.slice(1).flat());
      this.logarithmic = this.view.log && range !== null && range[1] > 2 * range[0];
      // The plot is made anew only if its lines or colours are others: a new one loses the cursor.
      const key = JSON.stringify([
        this.parts.map((part) => [part.curve, part.part, part.style]),
        this.logarithmic,
        theme.color("grid"),
      ]);
      if (this.uplot && key === this.key) {
        this.uplot.setData(data);
      } else {
        this.uplot?.destroy();
        this.key = key;
        this.uplot = new uPlot(this.options(), data, this.area);
      }
      this.update_readout();
    }

    options() {
      const bands = [];
      this.parts.forEach((part, index) => {
        const line = this.lines.find((one) => one.name === part.curve);
        if (part.part === "max") bands.push({ series: [index + 1, index + 2], fill: `${theme.color(line.color)}33` });
      });
      return {
        width: this.area.clientWidth,
        height: this.area.clientHeight,
        padding: [8, 20, 0, 0],
        legend: { show: false },
        scales: { x: { time: false, range: () => this.x_range() }, y: y_scale(this.logarithmic) },
        axes: axes(),
        series: [{}, ...this.parts.map((part) => ({ spanGaps: true, ...part.style }))],
        bands,
        cursor: {
          y: false,
          points: { show: false },
          drag: { x: true, y: false, setScale: false, dist: 5 },
          bind: { dblclick: () => () => (this.on_zoom(null), null) },
          sync: this.sync
            ? { key: this.sync, filters: { pub: (type) => type === "mousemove" || type === "mouseleave" } }
            : undefined,
        },
        hooks: {
          setSelect: [(plot) => this.on_select(plot)],
          setCursor: [() => this.update_readout()],
          drawAxes: [(plot) => draw_marks(plot, this.view.marks || [], this.x_range())],
        },
      };
    }

    x_range() {
      const { from, to } = this.view;
      return to > from ? [from, to] : [from - 1, from + 1];
    }

    resize() {
      if (!this.uplot || !this.area.clientWidth) return;
      const { width, height } = this.uplot;
      if (width === this.area.clientWidth && height === this.area.clientHeight) return;
      this.uplot.setSize({ width: this.area.clientWidth, height: this.area.clientHeight });
    }

    on_select(plot) {
      const { left, width } = plot.select;
      if (width < 5) return;
      const from = Math.floor(plot.posToVal(left, "x"));
      const to = Math.ceil(plot.posToVal(left + width, "x"));
      plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
      this.on_zoom(Math.max(0, from), to);
    }

    // The step under the cursor, or null.
    cursor_step() {
      const { idx, left } = this.uplot.cursor;
      return left >= 0 && idx !== null && idx !== undefined ? this.uplot.data[0][idx] : null;
    }

    // What the cursor is at, or the newest values: the same text for eyes and for screen readers.
    update_readout() {
      if (!this.uplot) return;
      const step = this.cursor_step();
      const steps = this.uplot.data[0];
      const at = step ?? steps[steps.length - 1];
      const words = [`step ${text.count(at)}`];
      const items = [
        make(
          "span",
          { class: "readout-step" },
          step === null ? `last: step ${text.count(at)}` : `step ${text.count(at)}`,
        ),
      ];
      for (const line of this.lines) {
        const index = nearest(line.step, at);
        const range =
          line.max && line.max[index] > line.min[index]
            ? ` (${text.number(line.min[index])} to ${text.number(line.max[index])})`
            : "";
        const value = `${line.label} ${text.number(line.value[index])}${range}`;
        const sample = make("span", {
          class: `sample ${line.dash ? "dashed" : "solid"} color-${line.color}`,
          "aria-hidden": "true",
        });
        items.push(make("span", { class: "readout-item" }, sample, value));
        words.push(value);
      }
      this.readout.replaceChildren(...items);
      set_attribute(this.area, "aria-label", this.view.label);
      set_attribute(this.area, "aria-valuemin", Math.round(this.view.from));
      set_attribute(this.area, "aria-valuemax", Math.round(Math.max(this.view.to, this.view.from)));
      set_attribute(this.area, "aria-valuenow", Math.round(at));
      set_attribute(this.area, "aria-valuetext", words.join(", "));
    }

    on_key(event) {
      if (!this.uplot || event.ctrlKey || event.metaKey || event.altKey) return;
      const steps = this.uplot.data[0];
      const at = nearest(steps, this.cursor_step() ?? steps[steps.length - 1]);
      const stride = event.shiftKey ? 10 : 1;
      const moves = {
        ArrowLeft: at - stride,
        ArrowDown: at - stride,
        ArrowRight: at + stride,
        ArrowUp: at + stride,
        Home: 0,
        End: steps.length - 1,
        PageUp: at + 10,
        PageDown: at - 10,
      };
      if (event.key in moves) {
        this.move_cursor(steps[Math.max(0, Math.min(steps.length - 1, moves[event.key]))]);
      } else if (event.key === "+" || event.key === "=") {
        const width = (this.view.to - this.view.from) / 4;
        this.on_zoom(Math.max(0, Math.floor(steps[at] - width)), Math.ceil(steps[at] + width));
      } else if (event.key === "-" || event.key === "Escape") {
        this.on_zoom(null);
      } else {
        return;
      }
      event.preventDefault();
    }

    move_cursor(step) {
      if (!this.uplot) return;
      const left = step === null ? -10 : this.uplot.valToPos(step, "x");
      this.uplot.setCursor({ left, top: step === null ? -10 : 10 });
    }

    // What the canvas shows, read back from uPlot: {curve: {part: [[step, value]]}}. For tests.
    plotted() {
      const result = {};
      if (!this.uplot) return result;
      this.parts.forEach((part, index) => {
        const values = this.uplot.data[index + 1];
        const points = this.uplot.data[0].map((step, at) => [step, values[at]]).filter(([, value]) => value !== null);
        result[part.curve] = { ...result[part.curve], [part.part]: points };
      });
      return result;
    }
  }

  window.rekindle.Plot = Plot;
})();
