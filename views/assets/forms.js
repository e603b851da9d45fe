/**
 * Forms and values that must not be lost: a value that is shown once stays until the user says that it is stored, and a form whose
 * request was refused stays with everything that was typed, also in password fields.
 */
(() => {
  const LOST = 'has not been stored yet and is never shown again. Leave this page without it?';

  /** The value on the page that was shown once and is not stored yet. */
  const unstored = () => document.querySelector('[data-unstored]');
  const mayLeave = () => unstored() === null || confirm(`${unstored().dataset.unstored} ${LOST}`);

  window.addEventListener('beforeunload', (event) => {
    if (unstored() !== null) event.preventDefault();
  });
  // Links and forms of the page are sent by htmx. Live parts replace themselves, not the value.
  document.addEventListener('htmx:confirm', (event) => {
    const { elt, target } = event.detail;
    if (target?.contains(unstored()) && !elt.hasAttribute('data-stored') && !mayLeave()) event.preventDefault();
  });

  /** The step back in history that was undone. This listener is registered before that of htmx, which would load the page. */
  let undoing = false;
  window.addEventListener('popstate', (event) => {
    if (!undoing && mayLeave()) return;
    event.stopImmediatePropagation();
    undoing = !undoing;
    if (undoing) history.forward();
  });

  // Without scripts, the layout opens links in a new tab while the value is on the page.
  document.addEventListener('htmx:load', () => document.querySelector('base')?.remove());

  /** Announces what was copied: the tick alone is not read out. */
  const announcer = Object.assign(document.createElement('p'), { className: 'unseen', role: 'status' });
  document.body.append(announcer);
  document.addEventListener('weir:copied', (event) => {
    announcer.textContent = '';
    // A repeated announcement of the same text is read out only if the text changed between.
    setTimeout(() => {
      announcer.textContent = event.detail ? 'Copied' : 'Copying failed';
    }, 50);
  });

  /** The button that sent each form, to press it again. */
  const senders = new WeakMap();
  const isForm = (elt) => elt instanceof HTMLFormElement && elt.method === 'post';

  document.addEventListener('submit', (event) => senders.set(event.target, event.submitter), true);
  document.addEventListener('htmx:beforeRequest', ({ detail: { elt } }) => {
    if (isForm(elt)) elt.ownerDocument.getElementById('refused')?.remove();
  });

  // A refusal that does not contain the form, such as 503, 409, 429, or the end of the session.
  document.addEventListener('htmx:beforeOnLoad', (event) => {
    const { elt, xhr } = event.detail;
    if (!isForm(elt)) return;
    if (xhr.getResponseHeader('hx-redirect')?.startsWith('/sign-in')) {
      event.preventDefault();
      return showRefusal(elt, 'You are signed out. Sign in again in another tab, then retry here.', '/sign-in');
    }
    if (xhr.status < 400) return;
    const reason = new DOMParser().parseFromString(xhr.responseText, 'text/html').querySelector('[data-problem]');
    if (reason === null) return;
    event.preventDefault();
    showRefusal(elt, reason.textContent);
  });
  document.addEventListener('htmx:sendError', ({ detail: { elt } }) => {
    if (isForm(elt)) showRefusal(elt, 'Weir does not respond. Nothing that you typed is lost.');
  });

  /** Says why the form was refused, in the form or, for a form of one button, above the page. */
  function showRefusal(form, reason, link) {
    const place = Object.assign(document.createElement('div'), { id: 'refused', className: 'alert', role: 'alert' });
    const signIn = link === undefined ? '' : `<a href="${link}" target="_blank">Sign in</a>`;
    place.innerHTML = `<p></p><p class="actions"><button type="button">Retry</button>${signIn}</p>`;
    place.firstChild.textContent = reason;
    const retry = place.querySelector('button');
    retry.addEventListener('click', () => again(form));
    const isLong = form.querySelector('input:not([type="hidden"]), textarea, select') !== null;
    (isLong ? form : document.getElementById('main')).prepend(place);
    place.scrollIntoView({ block: 'nearest' });
    retry.focus({ preventScroll: true });
  }

  /** Sends the form again, with the token of the present session: the user may have signed in again. */
  async function again(form) {
    const page = await fetch('/account', { headers: { 'hx-request': 'true' } }).then(
      (answer) => answer.text(),
      () => '',
    );
    const fresh = new DOMParser().parseFromString(page, 'text/html').querySelector('input[name="csrf"]');
    const own = form.querySelector('input[name="csrf"]');
    if (fresh?.value && own) own.value = fresh.value;
    const sender = senders.get(form);
    form.requestSubmit(sender?.isConnected ? sender : null);
  }
})();
