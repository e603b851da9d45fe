/**
 * A tool line above a JSON tree: search, and the path and value of the item that was clicked, which weir.js copies. htmx runs this file
 * again with each page that names it; only the first run counts. Without it the tree still opens and closes.
 */
(() => {
  if (window.weirTree) return;
  window.weirTree = true;

  const head = (item) => item.querySelector(':scope > details > summary') ?? item;
  const ownText = (item) =>
    [...head(item).querySelectorAll(':scope > span:not(.muted)')].map((part) => part.textContent).join(' ');

  /** The JSON pointer (RFC 6901) of an item. */
  function pointerOf(item) {
    const steps = [];
    for (let at = item; at?.dataset.k !== undefined; at = at.parentElement.closest('li'))
      steps.unshift(`/${at.dataset.k.replaceAll('~', '~0').replaceAll('/', '~1')}`);
    return steps.join('');
  }

  /** The JSON text of an item; null when a part of it is not in the page. */
  function jsonOf(item) {
    if (item.matches('[data-cut]') || item.querySelector('[data-cut]')) return null;
    const details = item.querySelector(':scope > details');
    if (details === null) return item.querySelector(':scope > span:not(.key)').textContent;
    const isObject = details.dataset.t === '{';
    const parts = [...details.querySelectorAll(':scope > ul > li')].map((one) =>
      isObject ? `${JSON.stringify(one.dataset.k)}:${jsonOf(one)}` : jsonOf(one),
    );
    return isObject ? `{${parts.join(',')}}` : `[${parts.join(',')}]`;
  }

  /** A string is copied as its text. */
  function copyOf(item) {
    const json = jsonOf(item);
    return json?.startsWith('"') ? JSON.parse(json) : json;
  }

  function enhance(tree) {
    if (tree.dataset.tree === 'ready') return;
    tree.dataset.tree = 'ready';
    const tools = document.createElement('div');
    tools.className = 'actions tree-tools';
    tools.innerHTML = `<input type="search" placeholder="Search in the body" aria-label="Search in the body">
      <span class="muted" role="status"></span><code></code>
      <button type="button" class="quiet" hidden>Copy path</button><button type="button" class="quiet" hidden>Copy value</button>`;
    const [search, count, path, copyPath, copyValue] = tools.children;
    tree.before(tools);

    let chosen = null;
    const choose = (item) => {
      chosen?.classList.remove('chosen');
      chosen = item;
      item.classList.add('chosen');
      path.textContent = pointerOf(item) || '/';
      copyPath.dataset.copy = pointerOf(item);
      const value = copyOf(item);
      copyValue.dataset.copy = value ?? '';
      copyPath.hidden = false;
      copyValue.hidden = value === null;
    };
    tree.addEventListener('click', (event) => {
      const item = event.target.closest('li');
      if (item !== null) choose(item);
    });

    let hits = [];
    let at = -1;
    const go = (step) => {
      if (hits.length === 0) return;
      at = (at + step + hits.length) % hits.length;
      choose(hits[at]);
      head(hits[at]).scrollIntoView({ block: 'nearest' });
      count.textContent = `${at + 1} of ${hits.length}`;
    };
    search.addEventListener('input', () => {
      for (const item of hits) item.classList.remove('hit');
      const sought = search.value.trim().toLowerCase();
      hits =
        sought === ''
          ? []
          : [...tree.querySelectorAll('li')].filter((item) => ownText(item).toLowerCase().includes(sought));
      for (const item of hits) {
        item.classList.add('hit');
        for (let up = item.parentElement.closest('details'); up; up = up.parentElement.closest('details'))
          up.open = true;
      }
      at = -1;
      count.textContent = sought !== '' && hits.length === 0 ? 'Not found' : '';
      go(1);
    });
    search.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter') return;
      event.preventDefault();
      go(event.shiftKey ? -1 : 1);
    });
  }

  const enhanceAll = () => {
    for (const tree of document.querySelectorAll('[data-tree]')) enhance(tree);
  };
  document.addEventListener('htmx:load', enhanceAll);
  enhanceAll();
})();
