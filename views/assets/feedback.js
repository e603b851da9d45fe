/**
 * Feedback to an action: buttons say what they are doing while their form is sent, and the notice of a change becomes a toast in the
 * corner, which stays until it was read. Without scripts the notice stays at the top of the page.
 */
(() => {
  /** How long a toast without a button of its own stays while it is neither pointed at nor focused. */
  const TOAST_MS = 8000;
  /** A shorter request changes no text, which would flicker. */
  const BUSY_AFTER_MS = 150;

  /** What a button does, from its first word, a verb: `Creating…`. */
  const doingOf = (text) =>
    `${{ Set: 'Sett', New: 'Creat', Cancel: 'Cancell' }[text.split(' ')[0]] ?? text.split(' ')[0].replace(/e$/, '')}ing…`;

  const buttons = new WeakMap();

  document.addEventListener('submit', ({ target, submitter }) => {
    const button = submitter ?? target.querySelector('button:not([type="button"])');
    if (!button || button.childElementCount > 0 || target.method === 'dialog') return;
    // A choice, such as Last hour, is not a verb.
    if (button.matches('.preset')) return;
    const text = button.textContent.trim();
    const out = doingOf(text);
    const timer = setTimeout(() => {
      button.textContent = out;
      button.setAttribute('aria-busy', 'true');
    }, BUSY_AFTER_MS);
    buttons.set(target, () => {
      clearTimeout(timer);
      button.removeAttribute('aria-busy');
      if (button.textContent === out) button.textContent = text;
    });
  });
  document.addEventListener('htmx:afterRequest', ({ detail: { elt } }) => buttons.get(elt)?.());
  // The page may come from the back/forward cache, as it was when the form was sent.
  window.addEventListener('pageshow', () => {
    for (const form of document.forms) buttons.get(form)?.();
  });

  /** Moves the notices of the page into the corner, and removes those of the page before. */
  function raise(root) {
    // Looked up each time: a step back in history replaces the whole body.
    const place = document.getElementById('toasts');
    if (root.id === 'main' || root === document) place.replaceChildren();
    for (const notice of root.querySelectorAll('.notice[data-toast]')) {
      const toast = document.createElement('div');
      toast.className = 'toast';
      toast.innerHTML = '<span></span><button type="button" class="quiet" aria-label="Close">×</button>';
      const [text, close] = toast.children;
      text.append(...notice.childNodes);
      close.addEventListener('click', () => toast.remove());
      const actions = text.querySelectorAll('form, a');
      close.before(...actions);
      htmx.process(toast);
      notice.remove();
      place.append(toast);
      if (actions.length === 0) leaveLater(toast);
    }
  }

  function leaveLater(toast) {
    setTimeout(() => (toast.matches(':hover, :focus-within') ? leaveLater(toast) : toast.remove()), TOAST_MS);
  }

  document.addEventListener('htmx:afterSwap', ({ target }) => raise(target));
  document.addEventListener('htmx:load', ({ target }) => {
    if (target === document.body) raise(document);
  });
})();
