/**
 * Charts with values under the pointer or the arrow keys. Each replaces the chart that the server drew, from the numbers in its
 * `data-plot`: times in Unix seconds, then the values of each line. Loaded by pages with a chart; it runs once, also when navigation
 * loads it again.
 */
if (window.weirCharts === undefined) {
  const HEIGHT = 220;
  /** Smallest share of the height at which a value above 0 is drawn (traffic.ts has it too). */
  const DRAWN_SHARE_MIN = 0.02;
  const locale = document.documentElement.lang;
  const number = new Intl.NumberFormat(locale);
  const plots = new Set();
  window.weirCharts = plots;

  /** Draws the charts that are new on the page, and forgets those that are gone. */
  const drawAll = () => {
    for (const plot of plots) if (!plot.root.isConnected) remove(plot);
    for (const place of document.querySelectorAll('[data-plot]')) draw(place);
  };

  const remove = (plot) => {
    plot.destroy();
    plots.delete(plot);
  };

  const draw = (place) => {
    const data = JSON.parse(place.dataset.plot);
    const bands = JSON.parse(place.dataset.bands ?? '[]');
    const names = place.dataset.names.split(',');
    const still = place.querySelector('svg');
    const readout = readoutOf(place);
    const style = (selector) => getComputedStyle(place.closest('section').querySelector(selector), '::before');
    const colours = names.map((_, i) => style(`.legend > :nth-child(${i + 1})`).backgroundColor);
    const text = getComputedStyle(still.querySelector('text')).fill;
    const grid = { stroke: getComputedStyle(still.querySelector('.grid')).stroke, width: 1 };
    const fillOf = ({ running }) => getComputedStyle(still.querySelector(running ? '.running' : '.band')).fill;
    const filled = bands.map((band) => ({ ...band, fill: fillOf(band) }));
    const axis = { stroke: text, grid, ticks: grid, font: `11px ${getComputedStyle(place).fontFamily}` };
    const plot = new uPlot(
      {
        width: Math.max(200, place.clientWidth),
        height: HEIGHT,
        legend: { show: false },
        cursor: { drag: { x: false, y: false }, y: false, points: { size: 7 } },
        scales: { y: { range: (_, __, max) => [0, Math.max(1, max * 1.05)] } },
        axes: [
          { ...axis, values: (_, times, __, ___, stepSeconds) => times.map((time) => timeText(time, stepSeconds)) },
          {
            ...axis,
            size: 68,
            values: (_, values) => values.map((one) => (Number.isInteger(one) ? number.format(one) : '')),
          },
        ],
        series: [
          {},
          ...names.map((label, i) => ({
            label,
            stroke: colours[i],
            width: 1.6,
            fill: i === 0 ? faint(colours[i]) : undefined,
            points: { show: false },
          })),
        ],
        hooks: {
          drawClear: [(plot) => drawBands(plot, filled)],
          setCursor: [({ cursor }) => tellValues(readout, place, data, names, cursor.idx)],
        },
      },
      drawnOf(data),
      place,
    );
    still.replaceWith(plot.root);
    place.append(readout);
    tellValues(readout, place, data, names, null);
    place.removeAttribute('data-plot');
    Object.assign(plot.root, {
      tabIndex: 0,
      role: 'img',
      ariaLabel: `${place.dataset.label}. Use the arrow keys to read values, Enter to show the events.`,
    });
    const [, link] = readout.children;
    plot.root.addEventListener('keydown', (event) => {
      if (event.key === 'Enter') link.click();
      else move(event, plot, data);
    });
    plot.over.addEventListener('click', () => link.click());
    plot.source = { place, data: JSON.stringify(data), still };
    plots.add(plot);
  };

  /** Outages, and the interval that is not over, behind the lines: `from` and `to` are shares of the width. */
  const drawBands = ({ ctx, bbox }, bands) => {
    for (const { from, to, fill } of bands) {
      ctx.fillStyle = fill;
      ctx.fillRect(
        bbox.left + Math.min(from * bbox.width, bbox.width - 2),
        bbox.top,
        Math.max(2, (to - from) * bbox.width),
        bbox.height,
      );
    }
  };

  /** Moves the cursor by one point. */
  const move = (event, plot, data) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    const last = data[0].length - 1;
    const at = Math.min(last, Math.max(0, (plot.cursor.idx ?? (by < 0 ? last + 1 : -1)) + by));
    plot.setCursor({ left: plot.valToPos(data[0][at], 'x'), top: 0 });
  };

  /** Shows the values at the cursor, with a link to the events of that time. */
  const readoutOf = (place) => {
    const readout = document.createElement('p');
    readout.className = 'readout';
    const values = document.createElement('span');
    values.setAttribute('aria-live', 'polite');
    const link = document.createElement('a');
    link.textContent = 'Show events';
    link.href = place.dataset.events;
    // htmx would keep this address, which changes with the cursor.
    link.setAttribute('hx-boost', 'false');
    readout.append(values, ' ', link);
    return readout;
  };

  const tellValues = ({ children: [text, link] }, place, data, names, at) => {
    link.hidden = at == null;
    if (at == null) {
      text.textContent = 'Point at the chart to read values; click it to show the events.';
      return;
    }
    const values = names.map((name, i) => `${number.format(data[i + 1][at])} ${name}`).join(', ');
    const [seconds, stepSeconds] = [data[0][at], data[0][1] - data[0][0]];
    text.textContent = `${localText(new Date(seconds * 1000)).slice(0, 16)}: ${values}`;
    const address = new URL(place.dataset.events, location.href);
    for (const [name, time] of Object.entries({ from: seconds, to: seconds + stepSeconds }))
      address.searchParams.set(name, new Date(time * 1000).toISOString());
    link.href = address.pathname + address.search;
  };

  /** The values as they are drawn: 3 of 10,000 requests would not be seen. */
  const drawnOf = ([times, ...lines]) => {
    const least = DRAWN_SHARE_MIN * Math.max(...lines.flat());
    return [times, ...lines.map((line) => line.map((value) => (value > 0 ? Math.max(value, least) : value)))];
  };

  /** `14:00`, at midnight and for steps of days `11-22`. */
  const timeText = (time, stepSeconds) => {
    const text = localText(new Date(time * 1000));
    return stepSeconds >= 86_400 || text.slice(11, 16) === '00:00' ? text.slice(5, 10) : text.slice(11, 16);
  };

  const faint = (colour) => colour.replace(/^rgb\((.*)\)$/, 'rgba($1, 0.14)');

  /** Draws again with the colours and the width of now. */
  const redraw = () => {
    for (const plot of plots) {
      const { place, data, still } = plot.source;
      plot.root.replaceWith(still);
      place.querySelector('.readout').remove();
      place.dataset.plot = data;
      remove(plot);
    }
    drawAll();
  };

  for (const name of ['htmx:afterSwap', 'htmx:load', 'htmx:historyRestore']) document.addEventListener(name, drawAll);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
  new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ['data-theme'] });
  let resizing = 0;
  addEventListener('resize', () => {
    clearTimeout(resizing);
    resizing = setTimeout(redraw, 100);
  });
  drawAll();
}
