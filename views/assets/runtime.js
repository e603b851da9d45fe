/**
 * The page Status during an outage of the database, when the server cannot render it: the counters of the stream are written into the
 * part with `data-counters`. Loaded by that page; it runs once, also when navigation loads it again. After the outage, live.js gets the
 * part from the server again.
 */
if (window.weirRuntime === undefined) {
  window.weirRuntime = true;
  const number = new Intl.NumberFormat('en-US');

  document.addEventListener('weir:counters', ({ detail: live }) => {
    const part = document.querySelector('[data-counters]');
    if (part === null || live.database === 'up') return;
    const { second } = live;
    const perSecond = (value) => number.format(Math.round((value * 1000) / Math.max(1, second.duration_ms)));
    const shown = {
      accepted: perSecond(second.accepted),
      requests: perSecond(second.requests),
      commit: second.commit_p99_ms === null ? '–' : milliseconds(second.commit_p99_ms),
      queue: number.format(second.queue_events),
      deliveries: '–',
      processes: statesText(live.processes),
    };
    for (const place of part.querySelectorAll('[data-counter]')) place.textContent = shown[place.dataset.counter];
    part.querySelector('.columns').setAttribute('data-old', '');
    showProcesses(part.querySelector('tbody'), live.processes);
  });

  /** One row a process; the rows of ended processes go. */
  const showProcesses = (body, processes) => {
    const [first] = body.rows;
    if (first === undefined) return;
    while (body.rows.length > Math.max(1, processes.length)) body.deleteRow(-1);
    for (const [place, one] of processes.entries()) {
      const { cells } = body.rows[place] ?? body.appendChild(first.cloneNode(true));
      const tag = document.createElement('span');
      const isDown = one.state === 'serving' && one.database === 'down';
      tag.className = `tag ${isDown ? 'bad' : one.state === 'serving' ? 'good' : 'warn'}`;
      tag.textContent = isDown ? 'database down' : one.state;
      cells[1].replaceChildren(tag);
      const texts = [one.pid, null, number.format(one.accepted), number.format(one.connections)];
      texts.push(milliseconds(one.event_loop_lag_ms), `${Math.round(one.resident_bytes / 1e6)} MB`);
      for (const [column, text] of texts.entries()) if (text !== null) cells[column].textContent = text;
    }
  };

  /** Like processesText of status.ts. */
  const statesText = (processes) => {
    const counts = new Map();
    for (const { state } of processes) counts.set(state, (counts.get(state) ?? 0) + 1);
    return [...counts].map(([state, many]) => `${many} ${many === 1 ? 'process' : 'processes'} ${state}`).join(', ');
  };

  const milliseconds = (value) =>
    value >= 1000
      ? `${(value / 1000).toFixed(1)} s`
      : `${value >= 10 ? Math.round(value) : Number(value).toFixed(1)} ms`;
}
