/**
 * Keyboard shortcuts: j and k move through the rows of a list, Enter opens the row, / goes to the search, Ctrl K opens the command field, ? shows all
 * shortcuts.
 * A row is selected by the focus of its first link, so Enter and screen readers need nothing else. Shortcuts of a single character can
 * be turned off (WCAG 2.1.4).
 */
(() => {
  const OFF = 'weir-shortcuts-off';
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
    if (!dialog().open) openCommands();
  });

  /**
   * The command field: actions of the open page and places of the menu by their words, and what /search finds. It is an ARIA combobox: the
   * focus stays in the field, and the arrow keys choose.
   */
  const WAIT_MS = 150;
  const commands = () => document.getElementById('command');
  const list = () => commands().querySelector('ul');
  let offered = [];
  let results = [];
  let chosen = 0;
  let timer;

  function openCommands() {
    const of = (selector, group) =>
      [...document.querySelectorAll(selector)]
        .filter((one) => one.checkVisibility())
        .map((one) => ({
          group,
          text: (one.getAttribute('aria-label') ?? one.textContent).trim(),
          go: () => one.click(),
        }))
        .filter(({ text }) => text !== '');
    offered = [
      ...of('main :is(.page-head .actions, .cause, .tabs.page) :is(a[href], button)', 'This page'),
      ...of('.nav a[href]:not(.count), .who a[href]', 'Go to'),
    ];
    results = [];
    commands().querySelector('input').value = '';
    Object.assign(list(), { role: 'listbox', ariaLabel: 'Commands and results' });
    if (!commands().open) commands().showModal();
    show();
  }

  function shown() {
    const words = commands().querySelector('input').value.toLowerCase().split(/\s+/);
    return [...offered.filter(({ text }) => words.every((word) => text.toLowerCase().includes(word))), ...results];
  }

  function show() {
    const items = shown();
    chosen = Math.max(0, Math.min(chosen, items.length - 1));
    list().replaceChildren(
      ...items.map(({ group, text }, index) => {
        const item = Object.assign(document.createElement('li'), { id: `command-${index}`, role: 'option' });
        item.ariaSelected = String(index === chosen);
        item.append(text, ' ', Object.assign(document.createElement('small'), { textContent: group }));
        return item;
      }),
    );
    commands()
      .querySelector('input')
      .setAttribute('aria-activedescendant', items.length > 0 ? `command-${chosen}` : '');
    list().children[chosen]?.scrollIntoView({ block: 'nearest' });
  }

  function run(item) {
    if (!item) return false;
    commands().close();
    item.go();
    return true;
  }

  /** Asks the page of the search, whose links are the results; an id leads to its page at once. */
  async function find(sought) {
    const address = `/search?q=${encodeURIComponent(sought)}`;
    const response = await fetch(address, { headers: { 'hx-request': 'true' } }).catch(() => null);
    if (!response?.ok || commands().querySelector('input').value.trim() !== sought) return;
    const link = (group, text, href) => ({ group, text, go: () => location.assign(href) });
    const page = new DOMParser().parseFromString(await response.text(), 'text/html');
    results = response.redirected
      ? [link('Found', new URL(response.url).pathname, response.url)]
      : [...page.querySelectorAll('section')].flatMap((section) =>
          [...section.querySelectorAll('li a, td:first-child a')].map((one) =>
            link(
              section.querySelector('h2').textContent,
              one.title || one.textContent.trim(),
              one.getAttribute('href'),
            ),
          ),
        );
    if (!response.redirected) results.push(link('Search', `Search for “${sought}”`, address));
    show();
  }

  document.addEventListener('input', ({ target }) => {
    if (!commands().contains(target)) return;
    clearTimeout(timer);
    results = [];
    chosen = 0;
    show();
    const sought = target.value.trim();
    if (sought.length > 1) timer = setTimeout(() => find(sought), WAIT_MS);
  });
  document.addEventListener('keydown', (event) => {
    if (!commands().open) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      const { length } = shown();
      chosen = length === 0 ? 0 : (chosen + step + length) % length;
      show();
    } else if (event.key === 'Enter' && run(shown()[chosen])) event.preventDefault();
  });
  document.addEventListener('click', ({ target }) => {
    if (target === commands()) target.close();
    else if (commands().contains(target)) run(shown()[[...list().children].indexOf(target.closest('li'))]);
  });

  const actions = { j: () => move(1), k: () => move(-1), '/': search, '?': open };

  document.addEventListener('keydown', (event) => {
    // The time at which the key was pressed, not handled: a page may be busy between the two keys.
    const { key, target, ctrlKey, metaKey, altKey, timeStamp } = event;
    if (ctrlKey || metaKey || altKey || event.defaultPrevented || dialog().open || commands().open) return;
    if (isOff() || target.closest?.('input, select, textarea, [contenteditable]')) return;
    const after = timeStamp - goneAtMs < GO_MS;
    goneAtMs = key === 'g' ? timeStamp : Number.NEGATIVE_INFINITY;
    const link = after && /^[a-z]$/.test(key) ? document.querySelector(`.nav a[data-go="${key}"]`) : null;
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
