"use strict";
// Draws the runs that stand in the page as JSON, one section after the other. Takes nothing from anywhere
// else.
const drawings = [];
const draw = (runs, root) => {
  const COLORS = ["#2f6fde", "#e07b00", "#2a9d63", "#a447c4", "#c8372d", "#0b8a9c"];
  const css = getComputedStyle(document.documentElement);
  const ink = css.getPropertyValue("--quiet").trim();
  const line = css.getPropertyValue("--line").trim();
  const color = (at) => COLORS[at % COLORS.length];
  const label = (at) => (runs.length > 1 ? `${runs[at].name} ` : "");

  const three = (value) => {
    if (value >= 100) return value.toFixed(0);
    return value >= 10 ? value.toFixed(1) : value.toFixed(2);
  };
  const scaled = (value, units) => {
    let at = 0;
    while (value >= 1000 && at < units.length - 1) { value /= 1000; at += 1; }
    return `${three(value)} ${units[at]}`;
  };
  const time = (ns) => (ns == null ? "" : scaled(ns, ["ns", "us", "ms", "s"]));
  const count = (value) => {
    if (value == null) return "";
    return value < 1000 ? String(Math.round(value)) : scaled(value, ["", "k", "M", "G"]).replace(" ", "");
  };
  const bytes = (value) => {
    if (value == null) return "";
    let at = 0;
    while (value >= 1024 && at < 4) { value /= 1024; at += 1; }
    return `${three(value)} ${["B", "KiB", "MiB", "GiB", "TiB"][at]}`;
  };
  const share = (value) => (value == null ? "" : `${(value * 100).toFixed(0)} %`);

  const element = (parent, tag, text, className) => {
    const made = document.createElement(tag);
    if (text != null) made.textContent = text;
    if (className) made.className = className;
    parent.appendChild(made);
    return made;
  };
  const place = (name) => root.querySelector(`.${name}`);

  // Tables: one column for each run.
  const heading = (table, className = "number") => {
    const row = element(table, "tr");
    element(row, "th", "");
    runs.forEach((run, at) => {
      const cell = element(row, "th", null, className);
      element(cell, "span", null, "swatch").style.background = color(at);
      cell.appendChild(document.createTextNode(run.name));
    });
  };
  const row = (table, name, value, className = "number") => {
    const values = runs.map(value);
    if (values.every((it) => it == null || it === "")) return;
    const made = element(table, "tr");
    element(made, "td", name);
    values.forEach((it) => element(made, "td", it == null ? "" : it, className));
  };
  const group = (table, name) => {
    const made = element(table, "tr", null, "group");
    element(made, "th", name).colSpan = runs.length + 1;
  };

  const summary = () => {
    const table = element(place("summary"), "table");
    heading(table);
    row(table, "loop", (run) => (run.closed_loop ? "closed (service time)" : "open (from due time)"));
    row(table, "valid", (run) => (run.invalid.length ? "INVALID" : "yes"));
    group(table, "Throughput in the measured time");
    row(table, "acknowledged", (run) => `${count(run.counts.acked_per_second)} records/s`);
    row(table, "", (run) => `${bytes(run.counts.acked_bytes_per_second)}/s`);
    row(table, "read by all groups", (run) => `${count(run.counts.consumed_per_second)} records/s`);
    row(table, "failed", (run) => String(run.counts.failed));
    row(table, "due, and of these acknowledged", (run) => `${run.counts.due}, ${run.counts.acked}`);
    group(table, "Cost");
    const gib = (run) => (run.counts.acked_bytes_per_second * run.measured_seconds) / 2 ** 30;
    row(table, "broker CPU", (run) => (run.broker.cpu_seconds == null ? ""
      : `${three(run.broker.cpu_seconds / gib(run))} s/GiB`));
    row(table, "broker memory, highest", (run) => bytes(run.broker.rss_bytes_max));
    row(table, "generator CPU", (run) => `${three(run.generator.cpu_seconds / gib(run))} s/GiB`);
  };

  // One line for each series and run, one column for each percentile.
  const latencies = () => {
    const table = element(place("latencies"), "table");
    const columns = [["p50", "p50"], ["p90", "p90"], ["p99", "p99"], ["p99.9", "p999"], ["p99.99", "p9999"],
      ["max", "max"], ["records", "count"]];
    const head = element(table, "tr");
    element(head, "th", "");
    for (const [title] of columns) element(head, "th", title, "number");
    const series = [["Produce, due until acknowledged", "produce"], ["End to end, due until read", "end_to_end"],
      ["Send delay, due until its producer came to it", "send_delay"], ["Of that, the generator's own lateness", "lateness"]];
    for (const [name, key] of series) {
      runs.forEach((run, at) => {
        if (run.latency[key].count === 0) return;
        const made = element(table, "tr");
        const cell = element(made, "td");
        element(cell, "span", null, "swatch").style.background = color(at);
        cell.appendChild(document.createTextNode(runs.length > 1 ? `${name}: ${run.name}` : name));
        for (const [, field] of columns) {
          const value = run.latency[key][field];
          // A quantile among records that were never answered is not known.
          element(made, "td", field === "count" ? count(value) : time(value) || "-", "number");
        }
      });
    }
  };

  const environment = () => {
    const table = element(place("environment"), "table");
    heading(table, "");
    const text = "quiet";
    row(table, "broker", (run) => run.broker.kind, text);
    row(table, "an acknowledgement means", (run) => run.broker.durability, text);
    row(table, "brokers, cluster", (run) => `${run.broker.brokers}, ${run.broker.cluster_id}`, text);
    row(table, "address", (run) => run.broker.bootstrap, text);
    const keys = (of) => [...new Set(runs.flatMap((run) => of(run).map((it) => it[0])))];
    for (const key of keys((run) => run.broker.configs)) {
      row(table, key, (run) => (run.broker.configs.find((it) => it[0] === key) || [])[1], text);
    }
    group(table, "Generator");
    row(table, "started", (run) => run.started, text);
    row(table, "machine", (run) => `${run.environment.cpu}, ${run.environment.cores} cores, `
      + bytes(run.environment.memory_bytes), text);
    row(table, "kernel", (run) => run.environment.kernel, text);
    row(table, "loadgen", (run) => run.environment.loadgen, text);
    group(table, "Workload");
    row(table, "name", (run) => run.workload, text);
    for (const key of keys((run) => run.settings)) {
      row(table, key, (run) => run.settings.filter((it) => it[0] === key).map((it) => it[1]).join(", "), text);
    }
    if (runs.some((run) => run.errors.length)) {
      group(table, "Errors");
      for (const key of keys((run) => run.errors)) {
        row(table, key, (run) => (run.errors.find((it) => it[0] === key) || [])[1], text);
      }
    }
  };

  const notices = () => {
    const parent = place("notices");
    for (const run of runs) {
      if (run.invalid.length) {
        element(parent, "div", `${run.name} is INVALID: ${run.invalid.join("; ")}`, "invalid");
      }
      for (const warning of run.warnings) element(parent, "div", `${run.name}: ${warning}`, "warning");
    }
  };

  // Plots. `lines` has for each line its points, name, color and whether it is dashed or faint.
  const plot = (title, note, lines, format, options = {}) => {
    const drawn = lines.filter((it) => it.points.length && it.points.some((point) => point[1] != null));
    if (!drawn.length) return;
    const box = element(place("plots"), "div", null, "plot");
    element(box, "h3", title);
    element(box, "p", note, "note");
    const tables = drawn.map((it) => [it.points.map((point) => point[0]), it.points.map((point) => point[1])]);
    const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
    const series = drawn.map((it) => ({
      label: it.name, stroke: it.color, width: it.faint ? 1 : 2, dash: it.dashed ? [6, 4] : undefined,
      value: (_, value) => format(value), points: { show: false }, spanGaps: true,
    }));
    const made = new uPlot({
      width: box.clientWidth, height: 270,
      scales: { x: { time: false, ...(options.x || {}) }, y: options.y || { range: (_, low, high) => [0, high * 1.08 || 1] } },
      axes: [
        { ...axis, ...(options.xAxis || { values: (_, at) => at.map((it) => `${it} s`) }) },
        { ...axis, size: 72, values: (_, at) => at.map((it) => (it == null ? "" : format(it))) },
      ],
      series: [{ label: options.xName || "second", value: options.xValue || ((_, value) => (value == null ? "" : `${value} s`)) }, ...series],
      legend: { live: true },
    }, uPlot.join(tables), box);
    drawings.push([made, box]);
  };
  const over = (value, more = {}) => runs.map((run, at) => ({
    name: `${label(at)}${more.name || ""}`.trim() || run.name,
    color: more.color && runs.length === 1 ? more.color : color(at),
    // What was acknowledged and read after the measured time belongs to latencies, not to rates.
    points: run.seconds.slice(0, more.tail ? undefined : Math.ceil(run.measured_seconds))
      .map((second, index) => [index + 1, value(second)]),
    ...(more.style || {}),
  }));
  const LOG = { distr: 3 };
  const latencyOver = (title, key, note) => {
    const lines = [[1, "p99", "#e07b00", {}], [0, "p50", "#2f6fde", { dashed: runs.length > 1 }],
      [3, "max", "#c8372d", { faint: true, dashed: true }]].filter((it) => runs.length === 1 || it[0] !== 3);
    plot(title, note, lines.flatMap(([at, name, stroke, style]) => over(
      (second) => (second[key][3] > 0 ? Math.max(second[key][at], 1) : null), { name, color: stroke, style, tail: true },
    )), time, { y: LOG });
  };
  const curve = (key, style) => runs.map((run, at) => ({
    name: `${label(at)}${key === "produce" ? "produce" : "end-to-end"}`,
    color: color(runs.length === 1 && key !== "produce" ? at + 1 : at),
    points: run.latency[key].curve
      .map(([quantile, ns]) => [quantile >= 1 ? run.latency[key].count : 1 / (1 - quantile), Math.max(ns, 1)])
      .filter((point, index, all) => index === 0 || point[0] > all[index - 1][0]),
    ...style,
  }));
  const percentile = (x) => (x == null ? "" : `p${Number(((1 - 1 / x) * 100).toPrecision(8))}`);

  const plots = () => {
    plot("Throughput", "Records acknowledged per second.", over((second) => second.acked), count);
    plot("Percentiles", "Which share of the records took no longer. Each step to the right leaves a tenth of the records.",
      [...curve("produce", {}), ...curve("end_to_end", { dashed: true })], time, {
        x: LOG, y: LOG, xName: "percentile", xValue: (_, value) => percentile(value),
        xAxis: { splits: () => [1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7], values: (_, at) => at.map((it) => (it == null ? "" : percentile(it))) },
      });
    latencyOver("Produce latency", "produce", runs.every((run) => run.closed_loop)
      ? "From the hand-over until the acknowledgement (closed loop)." : "From when a record was due until its acknowledgement.");
    latencyOver("End-to-end latency", "end_to_end", "From when a record was due until a consumer had it.");
    plot("Backlog", "Records due and not acknowledged, and acknowledged and not yet read by every group.",
      over((second) => second.backlog, { tail: true }), count);
    plot("Failed records", "Refused, or not acknowledged in time, per second.",
      runs.some((run) => run.counts.failed) ? over((second) => second.failed) : [], count);
    plot("CPU of the broker's process", "100 % is one core.", over((second) => second.broker_cpu), share);
    plot("Memory of the broker's process", "Resident.", over((second) => second.broker_rss_bytes), bytes);
  };

  notices();
  summary();
  latencies();
  plots();
  environment();
};

const sections = JSON.parse(document.getElementById("sections").textContent);
sections.forEach((runs, at) => draw(runs, document.getElementById(`section-${at}`)));
const save = document.getElementById("save");
const saved = JSON.stringify(sections.length === 1 ? sections[0] : sections, null, 1);
save.href = URL.createObjectURL(new Blob([saved], { type: "application/json" }));
addEventListener("resize", () => {
  for (const [made, box] of drawings) made.setSize({ width: box.clientWidth, height: 270 });
});
