/**
 * Keyboard shortcuts: j and k move through the rows of a list, Enter opens the row, / goes to the search, ? shows all shortcuts.
 * A row is selected by the focus of its first link, so Enter and screen readers need nothing else. Shortcuts of a single character can
 * be turned off (WCAG 2.1.4).
 */
(() => {
  const OFF = 'weir-shortcuts-off';
  /** The second key after g. */
  const places = {
    o: '/',
    i: '/issues',
    e: '/events',
    r: '/rejections',
    d: '/deliveries',
    p: '/jobs',
    w: '/webhooks',
    a: '/agents',
    u: '/users',
    t: '/tokens',
    l: '/audit',
    s: '/status',
  };
  const GO_MS = 1500;
  /** Looked up each time: a step back in history replaces the whole body. */
  const dialog = () => document.getElementById('shortcuts');
  const isOff = () => localStorage.getItem(OFF) !== null;
  let goneAtMs = Number.NEGATIVE_INFINITY;

  /** The link that opens each row, in the order of the page. */
  const rows = () =>
    [...document.querySelectorAll('main tbody tr')]
      .map((row) => row.querySelector('a[href]'))
      .filter((link) => link?.checkVisibility());

  function move(step) {
    const links = rows();
    const current = links.findIndex((link) => link.closest('tr').contains(document.activeElement));
    const next = current === -1 && step < 0 ? -1 : current + step;
    links.at(Math.min(next, links.length - 1))?.focus({ focusVisible: true });
  }

  /** Focuses the search, or on a list without one its first filter. */
  function search() {
    const field = document.querySelector('[data-search]') ?? document.querySelector('.filters :is(input, select)');
    field?.focus();
    field?.select?.();
  }

  function open() {
    dialog().querySelector('input').checked = !isOff();
    dialog().showModal();
  }

  document.addEventListener('keydown', (event) => {
    if (event.key !== 'k' || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
    event.preventDefault();
    search();
  });

  const actions = { j: () => move(1), k: () => move(-1), '/': search, '?': open };

  document.addEventListener('keydown', (event) => {
    // The time at which the key was pressed, not handled: a page may be busy between the two keys.
    const { key, target, ctrlKey, metaKey, altKey, timeStamp } = event;
    if (ctrlKey || metaKey || altKey || event.defaultPrevented || dialog().open) return;
    if (isOff() || target.closest?.('input, select, textarea, [contenteditable]')) return;
    const after = timeStamp - goneAtMs < GO_MS;
    goneAtMs = key === 'g' ? timeStamp : Number.NEGATIVE_INFINITY;
    const link = after && places[key] ? document.querySelector(`.nav a[href="${places[key]}"]`) : null;
    if (!link && !actions[key]) return;
    event.preventDefault();
    if (link) link.click();
    else actions[key]();
  });

  document.addEventListener('click', ({ target }) => {
    if (target.closest?.('[data-shortcuts]')) open();
    // A click beside the dialog, on its backdrop.
    else if (target === dialog()) target.close();
  });
  document.addEventListener('change', ({ target }) => {
    if (!dialog().contains(target)) return;
    if (target.checked) localStorage.removeItem(OFF);
    else localStorage.setItem(OFF, '');
  });

  /** Without scripts there are no shortcuts to show. */
  const reveal = () => {
    for (const one of document.querySelectorAll('[data-shortcuts]')) one.hidden = false;
  };
  document.addEventListener('htmx:load', reveal);
  reveal();
})();
