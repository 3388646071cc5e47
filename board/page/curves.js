// Curves as functions of values: what the server sends, what a live event adds, what is drawn.
"use strict";

(() => {
  // A curve is {step, value} or {step, min, mean, max}; docs/board.md says what a point stands for.
  const parts_of = (curve) => (curve.value ? ["value"] : ["min", "mean", "max"]);
  const middle_of = (curve) => curve.value || curve.mean || [];
  const last_step = (curve) => (curve.step.length ? curve.step[curve.step.length - 1] : -1);

  // Leaves out what is not of the form in the contract, so that a broken answer cannot stop the page.
  function checked(curves) {
    const good = Object.create(null); // a metric may have the name of a method of every object
    for (const [name, curve] of Object.entries(curves || {})) {
      const lists = curve && Array.isArray(curve.step) ? parts_of(curve).map((part) => curve[part]) : [];
      if (lists.length && lists.every((list) => Array.isArray(list) && list.length === curve.step.length)) {
        good[name] = curve;
      }
    }
    return good;
  }

  // Adds live points [[step, value]]. A step that is there already came with an answer of api/curves.
  function append(curve, points) {
    let added = 0;
    for (const [step, value] of points) {
      if (!Number.isFinite(value) || step <= last_step(curve)) continue;
      curve.step.push(step);
      for (const part of parts_of(curve)) curve[part].push(value);
      ++added;
    }
    return added;
  }

  // Removes the points after `step`.
  function rewind(curve, step) {
    while (curve.step.length && last_step(curve) > step) {
      curve.step.pop();
      for (const part of parts_of(curve)) curve[part].pop();
    }
  }

  // Exponential moving average of the points drawn, as TensorBoard has it: without a pull to 0 at the start.
  function smoothed(values, weight) {
    let sum = 0;
    let share = 0;
    return values.map((value) => {
      sum = weight * sum + (1 - weight) * value;
      share = weight * share + (1 - weight);
      return sum / share;
    });
  }

  // Puts lists with steps of their own over one list of steps: [steps, values, values, ...], null where a list has no
  // value. lines: [{step, values}]
  function align(lines) {
    const steps = [...new Set(lines.flatMap((line) => line.step))].sort((a, b) => a - b);
    const place = new Map(steps.map((step, index) => [step, index]));
    return [
      steps,
      ...lines.map((line) => {
        const values = new Array(steps.length).fill(null);
        line.step.forEach((step, index) => {
          values[place.get(step)] = line.values[index];
        });
        return values;
      }),
    ];
  }

  // The index of the point nearest to `step`, or -1.
  function nearest(steps, step) {
    let low = 0;
    let high = steps.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (steps[middle] < step) low = middle + 1;
      else high = middle;
    }
    return low > 0 && step - steps[low - 1] <= steps[low] - step ? low - 1 : high < 0 ? -1 : low;
  }

  function extent(values) {
    let low = Infinity;
    let high = -Infinity;
    for (const value of values) {
      if (value === null) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
    return low <= high ? [low, high] : null;
  }

  // ["accuracy", "loss", "test_loss"] -> {accuracy: ["accuracy"], loss: ["loss", "test_loss"]}: the curves of one plot.
  function groups(names) {
    const result = new Map();
    for (const name of names || []) {
      const base = name.startsWith("test_") && names.includes(name.slice(5)) ? name.slice(5) : name;
      result.set(base, [...(result.get(base) || []), name]);
    }
    for (const list of result.values()) list.sort((a, b) => a.startsWith("test_") - b.startsWith("test_"));
    return result;
  }

  window.rekindle.curves = {
    middle_of,
    last_step,
    checked,
    append,
    rewind,
    smoothed,
    align,
    nearest,
    extent,
    groups,
  };
})();
