/** Serves pages: authenticates, authorizes, reads the form, and renders the whole page or, for htmx, its main part. */
import { etagOf } from '../api/precondition.ts';
import type { Runner } from '../api/run.ts';
import type { OverOpenLimit } from '../api/serve.ts';
import type { AnonymousLimit } from '../auth/anonymous.ts';
import type { Csrf } from '../auth/csrf.ts';
import type { HostedSignIn } from '../auth/oidc/sign-in.ts';
import type { People } from '../auth/people.ts';
import type { Person } from '../auth/person.ts';
import { isFresh } from '../auth/step-up.ts';
import { problems } from '../errors.ts';
import type { ClientPackage } from '../http/client-package.ts';
import { compress } from '../http/compress.ts';
import { isKnown } from '../http/conditional.ts';
import type { Exchange } from '../http/exchange.ts';
import { OPEN_BODY_BYTES_MAX, type Parsed, ParsedBody } from '../http/parsed-body.ts';
import { type Problem, problem } from '../http/problem.ts';
import { StoredText } from '../http/stored-text.ts';
import type { History } from '../live/counters.ts';
import { allows, type Role } from '../resources/users.ts';
import type { Settings } from '../settings/read.ts';
import type { Assets } from './assets.ts';
import { createCall } from './call.ts';
import { tidyAddress } from './filters.ts';
import { appearanceOf, frameOf, usualAppearance } from './frame.ts';
import {
  addressOf,
  formAddress,
  isFragment,
  isPageLoad,
  prefersHtml,
  redirectBrowser,
  redirectTo,
} from './navigation.ts';
import type { Notices } from './notices.ts';
import { outagesOf, withPatience } from './outages.ts';
import { type Page, type PageReply, redirect } from './page.ts';
import { problemView, refusedForm } from './problem-view.ts';
import type { Renderer } from './render.ts';
import { securityHeaders } from './security-headers.ts';

type Handler = (exchange: Exchange) => Promise<void>;

interface PageParts {
  people: People;
  csrf: Csrf;
  runner: Runner;
  overOpenLimit: OverOpenLimit;
  anonymous: AnonymousLimit;
  /** Null when users sign in at Weir itself. */
  signIn: HostedSignIn | null;
  renderer: Renderer;
  assets: Assets;
  client: ClientPackage;
  notices: Notices;
  settings: Settings;
  /** The last minutes, for the counts of problems in the navigation and for outages. */
  history: History;
}

export class Pages {
  readonly #parts: PageParts;
  readonly #securityHeaders: readonly (readonly [string, string])[];
  readonly #limitedPages = {
    fragment: new StoredText(HTML, () => this.#limitedPage('fragment')),
    layout: new StoredText(HTML, () => this.#limitedPage('layout')),
  };

  constructor(parts: PageParts) {
    this.#parts = parts;
    this.#securityHeaders = securityHeaders(parts.settings);
  }

  /** A page for users with the role `needed` or higher. Users who are not signed in are redirected to the sign-in page and back. */
  forUsers(needed: Role, page: Page): Handler {
    return (exchange) =>
      this.#serve(exchange, async (person, form) => {
        if (person === null) return this.#redirectToSignIn(exchange);
        const confirmation = isPageLoad(exchange)
          ? await this.#parts.signIn?.confirmation(exchange, person, addressOf(exchange))
          : null;
        if (confirmation) return redirectBrowser(exchange, confirmation.href);
        const tidy = exchange.method === 'GET' ? tidyAddress(exchange) : null;
        if (tidy !== null) return redirect(tidy);
        if (!allows(person.role, needed))
          return problem('forbidden', `This page needs the role ${needed}; yours is ${person.role}.`);
        return page(this.#request(exchange, person, form));
      });
  }

  /** A page without required sign-in; the person is null when not signed in. */
  forAnyone(page: Page<Person | null>): Handler {
    const reply = (exchange: Exchange) => (person: Person | null, form: URLSearchParams) =>
      page(this.#request(exchange, person, form));
    const counts = page.countsRequests ?? false;
    return (exchange) => this.#serve(exchange, reply(exchange), { open: true, counts });
  }

  /** Answers an unknown path or method: a page for browsers, only the problem for programs. @param why more than the code says */
  readonly refuse = (exchange: Exchange, code: 'not_found' | 'method_not_allowed', why?: string): void => {
    // Unknown paths of senders are part of ingest, where 404 comes before the rate limit.
    if (exchange.path.startsWith('/in/')) return exchange.problem(problem(code));
    if (!prefersHtml(exchange)) {
      const refuse = (over: Problem | null) => exchange.problem(over ?? problem(code, why));
      this.#parts.anonymous.overUnlessKnown(exchange).then(refuse, (error) => exchange.fail(error));
      return;
    }
    const detail = code === 'method_not_allowed' ? 'This URL accepts only form submissions (POST).' : why;
    const shown = this.#serve(exchange, async () => problem(code, detail));
    shown.catch(() => exchange.problem(problem(code)));
  };

  #request<Who extends Person | null>(exchange: Exchange, person: Who, form: URLSearchParams) {
    return {
      person,
      id: exchange.parameters[0] ?? '',
      query: new URLSearchParams(exchange.query),
      form,
      call: createCall(this.#parts.runner, person, exchange),
      exchange,
    };
  }

  /**
   * @param open accepts forms without sign-in: with a smaller size limit, and rate-limited by client address.
   * @param counts the page counts requests against a limit of its own.
   */
  async #serve(
    exchange: Exchange,
    reply: (person: Person | null, form: URLSearchParams) => Promise<PageReply | null>,
    { open = false, counts = false } = {},
  ): Promise<void> {
    let person: Person | null = null;
    let form: Parsed<URLSearchParams> = { kind: 'parsed', value: new URLSearchParams() };
    const fields = () => (form.kind === 'parsed' ? form.value : new URLSearchParams());
    exchange.showProblem = (failure) => this.#showProblem(exchange, person, failure, fields());
    const body = exchange.method === 'POST' ? new ParsedBody(exchange, open ? OPEN_BODY_BYTES_MAX : undefined) : null;
    try {
      const over = open && body !== null ? await this.#parts.overOpenLimit(exchange) : null;
      if (over !== null) return exchange.problem(over);
      person = await withPatience(this.#parts.people.find(exchange), this.#outages).catch(async (failure: unknown) => {
        // Without the database the user is unknown. The form of an own page is kept, to be sent again.
        if (body !== null && this.#parts.csrf.fromOwnPage(exchange)) form = await body.form();
        throw failure;
      });
      const isCounted = counts || (open && body !== null);
      const isOver = person === null && !isCounted ? await this.#parts.anonymous.over(exchange) : null;
      if (isOver !== null) return exchange.problem(isOver);
      // The form of a page that requires sign-in is not parsed for users who are not signed in.
      if (body !== null && (open || person !== null)) form = await body.form();
    } finally {
      body?.release();
    }
    if (form.kind === 'problem') return exchange.problem(form);
    if (form.kind !== 'parsed') return;
    if (body !== null && !this.#mayChange(exchange, person, form.value.get('csrf') ?? undefined))
      return this.#send(exchange, person, problem('csrf_refused'), form.value);
    const answering = reply(person, form.value);
    // The outcome of a form is worth the wait: it may have changed something.
    const answered = await (body === null ? withPatience(answering, this.#outages) : answering);
    if (answered !== null) await this.#send(exchange, person, answered, form.value);
  }

  get #outages() {
    return outagesOf(this.#parts.history.latest);
  }

  /** Before sign-in there is no session to bind a token to, so only the browser's origin headers are checked. */
  #mayChange(exchange: Exchange, person: Person | null, token: string | undefined): boolean {
    const { csrf } = this.#parts;
    return person?.via.kind === 'session'
      ? csrf.allows(exchange, person.via.sessionId, token)
      : csrf.fromOwnPage(exchange);
  }

  /** Shows an error from outside the page, e.g. the database is down. This page needs no database. */
  #showProblem(exchange: Exchange, person: Person | null, failure: Problem, form: URLSearchParams): void {
    // If the page fails too, the plain problem document is sent.
    exchange.showProblem = null;
    const again = exchange.method !== 'POST' && problems[failure.code].status >= 500;
    const reply = {
      ...failure,
      ...(again ? { link: { to: addressOf(exchange), text: 'Try again' }, retries: true } : {}),
    };
    this.#send(exchange, person, reply, form).catch(() => exchange.problem(failure));
  }

  #redirectToSignIn(exchange: Exchange): null {
    const back =
      exchange.method === 'POST' ? formAddress(exchange, this.#parts.settings.PUBLIC_URL) : addressOf(exchange);
    return redirectBrowser(exchange, back === '/' ? '/sign-in' : `/sign-in?return_to=${encodeURIComponent(back)}`);
  }

  /** @param form the fields of a POST, which the page of a problem repeats. */
  async #send(exchange: Exchange, person: Person | null, reply: PageReply, form: URLSearchParams): Promise<void> {
    if (exchange.status !== 0) return;
    if (reply.kind === 'redirect') {
      const { to, notice, headers = {} } = reply;
      for (const [name, value] of Object.entries(headers)) exchange.setHeader(name, value);
      // The notice of a change that ends or begins a session is for the page before or after sign-in.
      const session = 'set-cookie' in headers ? null : sessionOf(person);
      return redirectTo(exchange, notice === undefined ? to : this.#parts.notices.addressWith(notice, to, session));
    }
    if (reply.kind === 'problem' && reply.code === 'rate_limited' && person === null)
      return this.#sendLimited(exchange, reply);
    const { renderer, csrf } = this.#parts;
    // The form of another site is not repeated: the user would send it.
    const isOwnForm = exchange.method === 'POST' && csrf.fromOwnPage(exchange) && [...form.keys()].length > 0;
    const shown = reply.kind === 'view' ? reply : problemView(reply, isOwnForm ? refusedForm(exchange, form) : null);
    const session = sessionOf(person);
    const common = {
      ...this.#frame(person),
      csrf: session === null ? '' : csrf.token(session),
      boosted: exchange.header('hx-boosted') === 'true',
      formToken: session === null ? form.get('csrf') : csrf.token(session),
      path: exchange.path,
      frame: frameOf(appearanceOf(exchange), person === null ? null : this.#parts.history),
      requestId: exchange.requestId,
      title: shown.title,
      outages: this.#outages,
      notice: this.#parts.notices.noticeOf(exchange, session),
    };
    const main = renderer.render(shown.view, { ...common, ...shown.data });
    const once = reply.kind === 'view' && reply.once === true;
    const html = renderer.render(isFragment(exchange) ? 'fragment' : 'layout', { ...common, once, main });
    // A form's path cannot be opened with GET: the URL stays that of the page, or becomes that of the created resource.
    if (exchange.method === 'POST') exchange.setHeader('hx-push-url', shown.address ?? 'false');
    if (reply.retryAfterSeconds !== undefined) exchange.setHeader('retry-after', String(reply.retryAfterSeconds));
    await this.#sendHtml(exchange, shown.status ?? 200, html);
  }

  /** What every page shows besides its own data and that of its request. */
  #frame(person: Person | null) {
    const { assets, client, settings } = this.#parts;
    return {
      person,
      apiUrl: settings.FRONTEND_PUBLIC_API_URL,
      publicUrl: settings.PUBLIC_URL,
      defaults: {
        rateLimit: settings.RATE_LIMIT_INGEST_MAX,
        rateLimitSeconds: settings.RATE_LIMIT_INGEST_WINDOW_SECONDS,
        payloadBytes: settings.WEBHOOK_MAX_PAYLOAD_BYTES,
        retentionDays: settings.RETENTION_DAYS,
      },
      hosted: settings.AUTH_MODE === 'hosted',
      isFresh: person !== null && isFresh(person),
      asset: (name: Parameters<Assets['path']>[0]) => assets.path(name),
      install: client.install,
      may: (role: Role) => person !== null && allows(person.role, role),
    };
  }

  /**
   * Answers a client over its rate limit with a stored page: rendering and compressing one takes 1.5 ms, which would make the refusal as
   * dear as what it refuses.
   */
  #sendLimited(exchange: Exchange, { retryAfterSeconds }: Problem): Promise<void> {
    for (const [name, value] of this.#securityHeaders) exchange.setHeader(name, value);
    if (exchange.method === 'POST') exchange.setHeader('hx-push-url', 'false');
    exchange.setHeader('retry-after', String(retryAfterSeconds));
    exchange.setHeader('vary', 'hx-request');
    const { fragment, layout } = this.#limitedPages;
    return (isFragment(exchange) ? fragment : layout).answer(exchange, undefined, problems.rate_limited.status);
  }

  #limitedPage(frame: 'fragment' | 'layout'): string {
    const { view, title, data } = problemView({ ...problem('rate_limited'), link: TRY_AGAIN }, null);
    const shown = { ...this.#frame(null), ...limitedFrame, title };
    const main = this.#parts.renderer.render(view, { ...shown, ...data });
    return this.#parts.renderer.render(frame, { ...shown, main });
  }

  async #sendHtml(exchange: Exchange, status: number, html: string): Promise<void> {
    for (const [name, value] of this.#securityHeaders) exchange.setHeader(name, value);
    exchange.setHeader('vary', 'accept-encoding, hx-request, cookie');
    // The response to a form may contain values that are shown only once.
    exchange.cacheControl = exchange.method === 'POST' ? 'no-store' : 'private, no-cache';
    if (status === 200 && exchange.method !== 'POST') {
      const tag = etagOf(html);
      exchange.setHeader('etag', `W/${tag}`);
      if (isKnown(exchange, tag)) return exchange.answer(304, HTML, '');
    }
    const compressed = await compress(html, exchange);
    if (compressed !== null) exchange.setHeader('content-encoding', compressed.coding);
    exchange.answer(status, HTML, compressed?.bytes ?? html);
  }
}

/** A proof of a notice is for a session, or null for a client that is not signed in. */
function sessionOf(person: Person | null): string | null {
  return person?.via.kind === 'session' ? person.via.sessionId : null;
}

const HTML = 'text/html; charset=utf-8';
/** An empty address is that of the page itself. */
const TRY_AGAIN = { to: '', text: 'Try again' };
/** The page of a client over its rate limit, in place of what depends on the request. */
const limitedFrame = {
  csrf: '',
  boosted: false,
  formToken: null,
  path: '',
  frame: frameOf(usualAppearance, null),
  requestId: null,
  outages: { database: false, spooling: false, rate_limits: false },
  notice: null,
  once: false,
};
