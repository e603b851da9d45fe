/**
 * The frame of the page: theme, menu of small screens, counts of problems in navigation, title and icon.
 */
(() => {
  const root = document.documentElement;
  const COOKIE_SECONDS = 31_536_000;

  /** Keeps the appearance in the cookie that the server reads, so that the next page has it from the start. */
  function remember() {
    const { theme = 'system', density = 'comfortable' } = root.dataset;
    const secure = location.protocol === 'https:' ? '; secure' : '';
    // biome-ignore lint/suspicious/noDocumentCookie: the Cookie Store API needs https, and Weir is also used over http
    document.cookie = `weir_appearance=${theme}.${density}; path=/; max-age=${COOKIE_SECONDS}; samesite=lax${secure}`;
  }

  document.addEventListener('click', (event) => {
    const button = event.target.closest?.('form[action="/account/appearance"] button[name]');
    if (!button) return;
    event.preventDefault();
    root.dataset[button.name] = button.value;
    remember();
    for (const one of document.querySelectorAll(`form[action="/account/appearance"] button[name="${button.name}"]`))
      one.setAttribute('aria-pressed', String(one.value === button.value));
  });

  document.addEventListener('keydown', ({ key }) => {
    const menu = document.querySelector('.menu-switch > :checked');
    if (key === 'Escape' && menu) menu.checked = false;
  });

  /** Requests rejected before this page followed the stream, as the server counted them. */
  let rejectedBefore = null;

  // live.js passes on each message of the stream with the counters.
  document.addEventListener('weir:counters', ({ detail: { database, deliveries, totals } }) => {
    const shown = (name) => document.querySelector(`[data-count="${name}"]`);
    const number = (name) => Number.parseInt(shown(name)?.textContent ?? '0', 10);
    rejectedBefore ??= { atTotal: totals.rejected, count: number('rejected') };
    show('rejected', rejectedBefore.count + Math.max(0, totals.rejected - rejectedBefore.atTotal));
    const dead = deliveries?.dead ?? number('dead');
    show('dead', dead);
    const badge = database === 'down' ? '(!) ' : dead > 0 ? `(${short(dead)}) ` : '';
    const title = badge + document.title.replace(/^\((\d+\+?|!)\) /, '');
    if (document.title !== title) document.title = title;
    const icon = document.querySelector('link[rel="icon"]');
    const address = badge === '' ? icon.dataset.calm : icon.dataset.alert;
    if (icon.getAttribute('href') !== address) icon.href = address;
  });
  // The new header has the current count.
  document.addEventListener('htmx:load', ({ target }) => {
    if (target.id === 'header') rejectedBefore = null;
  });

  function show(name, count) {
    for (const place of document.querySelectorAll(`[data-count="${name}"]`)) {
      place.textContent = short(count);
      place.hidden = count === 0;
    }
  }

  function short(count) {
    return count > 999 ? '999+' : String(count);
  }
})();
