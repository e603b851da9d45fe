/** Serves pages: authenticates, authorizes, reads the form, and answers with the reply of the page. */

import type { Exchange } from '../../base/http/exchange.ts';
import { OPEN_BODY_BYTES_MAX, type Parsed, ParsedBody } from '../../base/http/parsed-body.ts';
import { type Problem, problem } from '../../base/http/problem.ts';
import type { RouteHandler } from '../../base/http/route.ts';
import { isOtherLoopbackName } from '../../base/net/loopback.ts';
import type { Runner } from '../../manage/api/runner.ts';
import type { OverOpenLimit } from '../../manage/api/serve.ts';
import type { AnonymousLimit } from '../../manage/auth/anonymous.ts';
import type { HostedSignIn } from '../../manage/auth/oidc/sign-in.ts';
import type { People } from '../../manage/auth/people.ts';
import type { Person } from '../../manage/auth/person.ts';
import { problems } from '../../model/errors.ts';
import { allows, type Role } from '../../model/users.ts';
import { tidyAddress } from '../forms/form.ts';
import { createCall, type Names, type Page, type PageReply, redirect } from '../page.ts';
import { type PageAnswerParts, PageAnswers } from './answers.ts';
import { addressOf, asksForJson, formAddress, isPageLoad, prefersHtml, redirectBrowser } from './navigation.ts';
import { withPatience } from './outages.ts';

interface PageParts extends PageAnswerParts {
  people: People;
  runner: Runner;
  names: Names;
  overOpenLimit: OverOpenLimit;
  anonymous: AnonymousLimit;
  /** Null when users sign in at Weir itself. */
  signIn: HostedSignIn | null;
}

export class Pages {
  readonly #parts: PageParts;
  readonly #answers: PageAnswers;

  constructor(parts: PageParts) {
    this.#parts = parts;
    this.#answers = new PageAnswers(parts);
  }

  /** A page for users with the role `needed` or higher. Users who are not signed in are redirected to the sign-in page and back. */
  forUsers(needed: Role, page: Page): RouteHandler {
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
  forAnyone(page: Page<Person | null>): RouteHandler {
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
      call: createCall(this.#parts.runner, this.#parts.names, person, exchange, form),
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
    const outages = () => this.#answers.outages;
    if (!asksForJson(exchange))
      exchange.showProblem = (failure) => this.#showProblem(exchange, person, failure, fields());
    const body = exchange.method === 'POST' ? new ParsedBody(exchange, open ? OPEN_BODY_BYTES_MAX : undefined) : null;
    try {
      const over = open && body !== null ? await this.#parts.overOpenLimit(exchange) : null;
      if (over !== null) return exchange.problem(over);
      person = await withPatience(this.#parts.people.find(exchange), outages).catch(async (failure: unknown) => {
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
    const { PUBLIC_URL } = this.#parts.settings;
    if (body === null && person === null && isOtherLoopbackName(exchange.header('host') ?? '', PUBLIC_URL)) {
      // Forms and the session belong to the name in PUBLIC_URL.
      redirectBrowser(exchange, `${PUBLIC_URL}${addressOf(exchange)}`);
      return;
    }
    if (body !== null && !this.#mayChange(exchange, person, form.value.get('csrf') ?? undefined))
      return this.#answers.send(exchange, person, problem('csrf_refused'), form.value);
    const answering = reply(person, form.value);
    // The outcome of a form is worth the wait: it may have changed something.
    const answered = await (body === null ? withPatience(answering, outages) : answering);
    if (answered !== null) await this.#answers.send(exchange, person, answered, form.value);
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
    this.#answers.send(exchange, person, reply, form).catch(() => exchange.problem(failure));
  }

  #redirectToSignIn(exchange: Exchange): null {
    const back =
      exchange.method === 'POST' ? formAddress(exchange, this.#parts.settings.PUBLIC_URL) : addressOf(exchange);
    return redirectBrowser(exchange, back === '/' ? '/sign-in' : `/sign-in?return_to=${encodeURIComponent(back)}`);
  }
}
