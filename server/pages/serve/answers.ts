/** Sends the reply of a page, rendered from templates of views/: the whole page or, for htmx, its main part. */
import { Eta } from 'eta';
import { builtFile } from '../../base/files/build.ts';
import type { ClientPackage } from '../../base/http/client-package.ts';
import { isKnown } from '../../base/http/conditional.ts';
import type { Exchange } from '../../base/http/exchange.ts';
import { type Problem, problem } from '../../base/http/problem.ts';
import { compress, StoredText } from '../../base/http/stored-text.ts';
import type { Settings } from '../../base/settings/read.ts';
import { within } from '../../base/time/every.ts';
import { etagOf } from '../../manage/api/operation.ts';
import type { Csrf } from '../../manage/auth/csrf.ts';
import type { Person } from '../../manage/auth/person.ts';
import { isFresh } from '../../manage/auth/step-up.ts';
import type { History } from '../../manage/live/counters.ts';
import { problems } from '../../model/errors.ts';
import { allows, type Role } from '../../model/users.ts';
import { PART_MS_MAX, type PageReply } from '../page.ts';
import * as show from '../show.ts';
import type { Assets } from './assets.ts';
import { appearanceOf, frameOf, usualAppearance } from './frame.ts';
import { asksForJson, isFragment, redirectTo } from './navigation.ts';
import type { Notices } from './notices.ts';
import { outagesOf } from './outages.ts';
import { problemView, refusedForm } from './problem-view.ts';

export interface PageAnswerParts {
  csrf: Csrf;
  assets: Assets;
  client: ClientPackage;
  notices: Notices;
  settings: Settings;
  /** The last minutes, for outages. */
  history: History;
  /** Counts open issues for the navigation. */
  countIssues: () => Promise<number>;
}

export class PageAnswers {
  readonly #parts: PageAnswerParts;
  readonly #renderer = new Renderer();
  readonly #securityHeaders: readonly (readonly [string, string])[];
  /** Pages that are the same for every client without a person, by name, frame and appearance: each is rendered and compressed once. */
  readonly #storedPages = new Map<string, StoredText<() => string>>();

  constructor(parts: PageAnswerParts) {
    this.#parts = parts;
    this.#securityHeaders = securityHeaders(parts.settings);
  }

  /** The outages that pages show now. */
  get outages() {
    return outagesOf(this.#parts.history.latest);
  }

  /** Sends nothing if the exchange is answered. @param form the fields of a POST, which the page of a problem repeats. */
  async send(exchange: Exchange, person: Person | null, reply: PageReply, form: URLSearchParams): Promise<void> {
    if (exchange.status !== 0) return;
    if (reply.kind === 'redirect') {
      const { to, notice, headers = {} } = reply;
      for (const [name, value] of Object.entries(headers)) exchange.setHeader(name, value);
      // The notice of a change that ends or begins a session is for the page before or after sign-in.
      const session = 'set-cookie' in headers ? null : sessionOf(person);
      return redirectTo(exchange, notice === undefined ? to : this.#parts.notices.addressWith(notice, to, session));
    }
    if (reply.kind === 'problem' && asksForJson(exchange)) return exchange.problem(reply);
    if (reply.kind === 'problem' && reply.code === 'rate_limited' && person === null)
      return this.#sendLimited(exchange, reply);
    const { csrf } = this.#parts;
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
      frame: await this.#counted(exchange, person),
      requestId: exchange.requestId,
      title: shown.title,
      outages: this.outages,
      outage: this.#parts.history.latest?.outage ?? null,
      notice: this.#parts.notices.noticeOf(exchange, session),
    };
    const { once = false, stored, formTo } = reply.kind === 'view' ? reply : {};
    const { retries = false } = reply.kind === 'problem' ? reply : {};
    const html = () => {
      const main = this.#renderer.render(shown.view, { ...common, ...shown.data });
      return this.#renderer.render(isFragment(exchange) ? 'fragment' : 'layout', { ...common, once, retries, main });
    };
    const isUsual = person === null && common.notice === null && Object.values(common.outages).every((one) => !one);
    if (stored !== undefined && isUsual) {
      const { theme, density } = common.frame;
      const frame = isFragment(exchange) ? `fragment ${common.boosted}` : `layout ${theme} ${density}`;
      return this.#sendStored(exchange, `${stored} ${frame}`, html);
    }
    // A form's path cannot be opened with GET: the URL stays that of the page, or becomes that of the created resource.
    if (exchange.method === 'POST') exchange.setHeader('hx-push-url', shown.address ?? 'false');
    if (reply.retryAfterSeconds !== undefined) exchange.setHeader('retry-after', String(reply.retryAfterSeconds));
    await this.#sendHtml(exchange, shown.status ?? 200, html(), formTo);
  }

  async #counted(exchange: Exchange, person: Person | null) {
    const isDown = person !== null && this.#parts.history.latest?.database === 'down';
    const issues = person === null || isDown ? 0 : await within(PART_MS_MAX, this.#parts.countIssues());
    return frameOf(appearanceOf(exchange), issues, isDown);
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
      client,
      may: (role: Role) => person !== null && allows(person.role, role),
    };
  }

  /**
   * Answers a client over its rate limit with a stored page: rendering and compressing one takes 1.5 ms, which would make the refusal as
   * dear as what it refuses.
   */
  #sendLimited(exchange: Exchange, { retryAfterSeconds }: Problem): Promise<void> {
    if (exchange.method === 'POST') exchange.setHeader('hx-push-url', 'false');
    exchange.setHeader('retry-after', String(retryAfterSeconds));
    const frame = isFragment(exchange) ? 'fragment' : 'layout';
    return this.#sendStored(exchange, `limited ${frame}`, () => this.#limitedPage(frame), problems.rate_limited.status);
  }

  /** Rendering and compressing a guide takes up to 7 ms, which anyone could ask for. */
  #sendStored(exchange: Exchange, name: string, html: () => string, status = 200): Promise<void> {
    const page = this.#storedPages.get(name) ?? new StoredText(HTML, (make: () => string) => make());
    this.#storedPages.set(name, page);
    for (const [header, value] of this.#securityHeaders) exchange.setHeader(header, value);
    exchange.setHeader('vary', 'hx-request, cookie');
    return page.answer(exchange, html, status);
  }

  #limitedPage(frame: 'fragment' | 'layout'): string {
    const { view, title, data } = problemView({ ...problem('rate_limited'), link: TRY_AGAIN }, null);
    const shown = { ...this.#frame(null), ...limitedFrame, title };
    const main = this.#renderer.render(view, { ...shown, ...data });
    return this.#renderer.render(frame, { ...shown, main });
  }

  async #sendHtml(exchange: Exchange, status: number, html: string, formTo?: string): Promise<void> {
    const fields = formTo === undefined ? this.#securityHeaders : securityHeaders(this.#parts.settings, formTo);
    for (const [name, value] of fields) exchange.setHeader(name, value);
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
  frame: frameOf(usualAppearance),
  requestId: null,
  outages: { database: false, spooling: false, rate_limits: false },
  outage: null,
  notice: null,
  once: false,
  retries: false,
};

/**
 * Names and values. The policy allows no inline script or style, and nothing of other origins but the API.
 * @param formTo origin to which the answer to a form may redirect: Chromium applies form-action to it
 */
function securityHeaders({ FRONTEND_PUBLIC_API_URL, PUBLIC_URL }: Settings, formTo?: string): [string, string][] {
  const policy = [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "font-src 'self'",
    "img-src 'self'",
    `connect-src 'self' ${FRONTEND_PUBLIC_API_URL}`,
    // A policy cannot name an IPv6 address.
    `form-action 'self'${formTo === undefined ? '' : ` ${formTo.includes('[') ? 'http:' : formTo}`}`,
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ];
  return [
    ['content-security-policy', policy.join('; ')],
    ['referrer-policy', 'same-origin'],
    ['cross-origin-opener-policy', 'same-origin'],
    ['cross-origin-resource-policy', 'same-origin'],
    ...(PUBLIC_URL.startsWith('https:') ? [['strict-transport-security', 'max-age=31536000'] as [string, string]] : []),
  ];
}

/** Templates of views/, each compiled once. All output is escaped except with `~`. */
export class Renderer {
  readonly #eta = new Eta({
    views: builtFile('views'),
    cache: true,
    autoTrim: [false, 'nl'],
  });

  constructor() {
    // A page of 50 events includes 200 partials, and Eta builds a JSON text to look up each path: a sixth of the time of rendering.
    const resolve = this.#eta.resolvePath!.bind(this.#eta);
    const paths = new Map<string, string>();
    this.#eta.resolvePath = (template, options) => {
      const key = `${options?.filepath} ${template}`;
      const path = paths.get(key) ?? resolve(template, options);
      paths.set(key, path);
      return path;
    };
  }

  /** @param name path below views/ without extension. Templates read `data` as `it`, and the functions of show.ts as `it.show`. */
  render(name: string, data: object): string {
    return this.#eta.render(`./${name}`, { ...data, show });
  }
}
