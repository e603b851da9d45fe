/**
 * The frame of the page: theme, menu of small screens, the count of open issues in the navigation, title and icon.
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

  // live.js passes on each message of the stream with the counters.
  document.addEventListener('weir:counters', ({ detail: { database, issues } }) => {
    const place = document.querySelector('[data-count="issues"]');
    if (place && issues !== undefined) {
      place.textContent = short(issues);
      place.hidden = issues === 0;
    }
    const badge = database === 'down' ? '(!) ' : place && !place.hidden ? `(${place.textContent}) ` : '';
    const title = badge + document.title.replace(/^\((\d+\+?|!)\) /, '');
    if (document.title !== title) document.title = title;
    const icon = document.querySelector('link[rel="icon"]');
    const address = badge === '' ? icon.dataset.calm : icon.dataset.alert;
    if (icon.getAttribute('href') !== address) icon.href = address;
  });

  function short(count) {
    return count > 999 ? '999+' : String(count);
  }
})();
