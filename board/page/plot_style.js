// How a plot looks: its axes, its lines, and the marks over them.
"use strict";

(() => {
  const { smoothed } = window.rekindle.curves;
  const { text, theme } = window.rekindle;
  const kFont = "12px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
  const kMostNamedMarks = 12;

  function short_step(step) {
    if (step >= 1e6 && step % 1e4 === 0) return `${step / 1e6}M`;
    if (step >= 1e4 && step % 100 === 0) return `${step / 1e3}k`;
    return Number.isInteger(step) ? text.count(step) : "";
  }

  function axis_values(plot, splits, axis, space, increment) {
    let digits = 0; // so many that neighbours differ: an increment of 0.25 needs two
    while (digits < 8 && Math.abs(increment * 10 ** digits - Math.round(increment * 10 ** digits)) > 1e-6) ++digits;
    return splits.map((value) => {
      if (value === null || value === undefined) return null;
      return Math.abs(value) >= 1e4 || digits > 5 ? short_step(value) || text.number(value) : value.toFixed(digits);
    });
  }

  // Of a logarithmic axis over several decades only 1, 2 and 5 have numbers, or powers of ten.
  function log_labels(plot, splits) {
    const { min, max, distr } = plot.scales.y;
    if (distr !== 3 || max / min < 12) return splits;
    const wanted = max / min < 1e3 ? [1, 2, 5] : [1];
    return splits.map((value) =>
      wanted.includes(Number((value / 10 ** Math.floor(Math.log10(value) + 1e-9)).toFixed(6))) ? value : null,
    );
  }

  // The drawn lists of one line: {curve, part, values, style}. "min" and "max" are the borders of the shaded band.
  function parts_of(line, view) {
    const usable = (list) => (view.log ? list.map((value) => (value > 0 ? value : null)) : list);
    const part = (name, values, style) => ({
      curve: line.name,
      part: name,
      step: line.step,
      values: usable(values),
      style,
    });
    const color = theme.color(line.color);
    const smooth = line.smoothing > 0 && line.step.length > 2;
    const parts = [];
    if (line.max) {
      parts.push(part("max", line.max, { width: 0, points: { show: false } }));
      parts.push(part("min", line.min, { width: 0, points: { show: false } }));
    }
    const few = line.step.length <= 60;
    parts.push(
      part(line.max ? "mean" : "value", line.value, {
        stroke: smooth ? `${color}73` : color,
        width: smooth ? 1 : 1.8,
        dash: line.dash,
        points: { show: Boolean(line.points) || few, size: 5, fill: color, stroke: color },
      }),
    );
    if (smooth) {
      const style = { stroke: color, width: 2.2, dash: line.dash, points: { show: false } };
      parts.push(part("smoothed", smoothed(line.value, line.smoothing), style));
    }
    return parts;
  }

  function axes() {
    const axis = {
      stroke: theme.color("muted"),
      font: kFont,
      grid: { stroke: theme.color("grid"), width: 1 },
      ticks: { show: false },
    };
    const steps = [1, 2, 5, 10, 20, 25, 50].flatMap((n) => [n, n * 1e2, n * 1e4, n * 1e6]).sort((a, b) => a - b);
    return [
      { ...axis, size: 26, gap: 4, space: 60, incrs: steps, values: (plot, splits) => splits.map(short_step) },
      { ...axis, size: 54, gap: 6, space: 27, values: axis_values, filter: log_labels },
    ];
  }

  function y_scale(logarithmic) {
    const around = (low, high) => {
      if (low === null || high === null) return logarithmic ? [0.1, 1] : [0, 1];
      if (logarithmic) return [low / 1.08, high * 1.08];
      if (low < high) return uPlot.rangeNum(low, high, 0.06, true);
      return [low - Math.abs(low || 1) / 10, high + Math.abs(high || 1) / 10];
    };
    return { distr: logarithmic ? 3 : 1, log: 10, range: (plot, low, high) => around(low, high) };
  }

  // Lines from top to bottom where an attempt began (dashed) or a trainer was lost (a cross at the bottom).
  function draw_marks(plot, all_marks, [from, to]) {
    const { ctx, bbox } = plot;
    const ratio = window.devicePixelRatio || 1;
    const marks = all_marks.filter((mark) => mark.step >= from && mark.step <= to);
    // Hundreds of lines would hide the curve.
    const many = marks.filter((mark) => mark.kind !== "lost").length > kMostNamedMarks;
    const bottom = bbox.top + bbox.height;
    ctx.save();
    ctx.font = `${11 * ratio}px system-ui, sans-serif`;
    ctx.lineWidth = ratio;
    ctx.textBaseline = "alphabetic";
    for (const mark of marks) {
      const x = Math.round(plot.valToPos(mark.step, "x", true)) + 0.5;
      const lost = mark.kind === "lost";
      ctx.strokeStyle = ctx.fillStyle = theme.color(lost ? "bad" : "muted");
      ctx.globalAlpha = many && !lost ? 0.45 : 0.8;
      ctx.setLineDash(lost || many ? [] : [3 * ratio, 4 * ratio]);
      ctx.beginPath();
      ctx.moveTo(x, lost ? bottom - 6 * ratio : bbox.top);
      ctx.lineTo(x, many && !lost ? bbox.top + 7 * ratio : bottom);
      ctx.stroke();
      ctx.textAlign = lost ? "center" : "left";
      if (lost) ctx.fillText("✕", x, bottom - 8 * ratio);
      else if (!many) ctx.fillText(mark.name, x + 3 * ratio, bbox.top + 11 * ratio);
    }
    ctx.restore();
  }

  window.rekindle.plot_style = { axes, parts_of, y_scale, draw_marks };
})();
