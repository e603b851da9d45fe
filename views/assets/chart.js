/**
 * Charts of requests under the pointer or the arrow keys: a cursor over the drawing of the server, the values of its point from the table
 * below the chart, and times on the axis. Loaded by pages with a chart; it runs once, also when navigation loads it again.
 */
if (window.weirCharts === undefined) {
  window.weirCharts = true;
  const DAY_MS = 86_400_000;

  const readAll = () => {
    for (const place of document.querySelectorAll('.plot:not(:has(> .readout))')) read(place);
  };

  const read = (place) => {
    const chart = place.querySelector('.chart');
    const rows = [...place.closest('section').querySelectorAll('.values tbody tr')].reverse();
    const last = rows.length - 1;
    drawTimes(
      chart,
      rows.map((row) => Date.parse(row.querySelector('time').dateTime)),
    );
    const lines = [...chart.querySelectorAll('.line')].map(pointsOf);
    const cursor = chart.appendChild(svg('g', { class: 'cursor' }));
    const readout = readoutOf();
    const [text, link] = readout.children;
    let current = null;

    /** Puts the cursor on a point; null: on none. */
    const show = (at) => {
      current = at;
      link.hidden = at === null;
      if (at === null) {
        cursor.replaceChildren();
        text.textContent = 'Point at the chart to read values; click it to show the events.';
        return;
      }
      const { x } = lines[0].points[at];
      const dots = lines.map(({ name, points }) => svg('circle', { class: name, cx: x, cy: points[at].y, r: 3.5 }));
      cursor.replaceChildren(svg('line', { x1: x, x2: x, y2: '100%' }), ...dots);
      const values = [...rows[at].querySelectorAll('td.num')].map(
        (cell) => `${cell.textContent} ${cell.dataset.label}`,
      );
      text.textContent = `${rows[at].querySelector('time').textContent.slice(0, 16)}: ${values.join(', ')}`;
      link.setAttribute('href', rows[at].querySelector('a').getAttribute('href'));
    };

    chart.addEventListener('pointermove', ({ clientX }) => {
      const { left, width } = chart.getBoundingClientRect();
      show(Math.min(last, Math.max(0, Math.round(((clientX - left) / width) * last))));
    });
    chart.addEventListener('pointerleave', () => show(null));
    chart.addEventListener('click', () => link.click());
    chart.addEventListener('keydown', (event) => {
      if (event.key === 'Enter') return link.click();
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (by === undefined) return;
      event.preventDefault();
      show(Math.min(last, Math.max(0, (current ?? (by < 0 ? last + 1 : -1)) + by)));
    });
    chart.setAttribute('tabindex', '0');
    chart.ariaLabel += '. Use the arrow keys to read values, Enter to show the events.';
    place.append(readout);
    show(null);
  };

  /** The points of a line in percent of the chart, and the class of its colour. */
  const pointsOf = (line) => {
    const { width, height } = line.ownerSVGElement.viewBox.baseVal;
    const points = [...line.getAttribute('d').matchAll(/([\d.]+) ([\d.]+)/g)].map(([, x, y]) => ({
      x: `${(100 * x) / width}%`,
      y: `${(100 * y) / height}%`,
    }));
    return { name: line.classList[1], points };
  };

  /** Times in the time zone of the browser, every 4 hours, day or 5 days, instead of the names of both ends. */
  const drawTimes = (chart, times) => {
    for (const name of chart.querySelectorAll('.end')) name.remove();
    const [first, last] = [times[0], times.at(-1)];
    const days = (last - first) / DAY_MS;
    const hours = days <= 2 ? 4 : days <= 8 ? 24 : 120;
    const at = new Date(first);
    at.setHours(0, 0, 0, 0);
    for (; at <= last; at.setHours(at.getHours() + hours)) {
      if (at < first) continue;
      const x = `${(100 * (at - first)) / (last - first)}%`;
      const name = svg('text', { x, y: '100%', dy: '1.4em', 'text-anchor': 'middle' });
      const text = localText(at);
      name.textContent = hours >= 24 || at.getHours() === 0 ? text.slice(5, 10) : text.slice(11, 16);
      chart.append(name);
      chart.prepend(svg('line', { class: 'grid', x1: x, x2: x, y2: '100%' }));
    }
  };

  /** A line for the values at the cursor, with a link to the events of that time. */
  const readoutOf = () => {
    const readout = document.createElement('p');
    readout.className = 'hint readout';
    // htmx would keep the first address of the link, which changes with the cursor.
    readout.innerHTML = '<span aria-live="polite"></span> <a hx-boost="false">Show events</a>';
    return readout;
  };

  const svg = (name, attributes) => {
    const element = document.createElementNS('http://www.w3.org/2000/svg', name);
    for (const [attribute, value] of Object.entries(attributes)) element.setAttribute(attribute, value);
    return element;
  };

  for (const name of ['htmx:afterSwap', 'htmx:load', 'htmx:historyRestore']) document.addEventListener(name, readAll);
  readAll();
}
