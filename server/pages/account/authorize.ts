/** /oauth/authorize: a person decides what an OAuth client may do at /mcp. */
import { problem } from '../../base/http/problem.ts';
import { overLimit } from '../../base/http/rate-limit.ts';
import type { Confirm } from '../../manage/api/runner.ts';
import { personActor } from '../../manage/auth/person.ts';
import { answerTo, grant, readRequest } from '../../manage/oauth/authorize.ts';
import { type OAuth, oauthPolicy } from '../../manage/oauth/oauth.ts';
import { allows, roles } from '../../model/users.ts';
import { confirmation, confirmationError, field, fieldError, formErrors, noErrors } from '../forms/form.ts';
import { choicesOf, idsOf } from '../names.ts';
import { type FormFeedback, formView, type Page, type PageReply, type PageRequest, redirect, view } from '../page.ts';

type Asked = Exclude<Awaited<ReturnType<typeof readRequest>>, { kind: 'problem' }>;
type Known = Extract<Asked, { kind: 'request' }>;

/** @param oauth null: OAUTH_ENABLED is false, and the pages have no routes */
export function authorizePages(oauth: OAuth | null, confirm: Confirm) {
  /** Runs `decide` for a request of a known client to a person who is signed in here. */
  const forRequest = async (
    { person, exchange }: PageRequest,
    text: string,
    decide: (request: Asked, parts: OAuth['parts']) => Promise<PageReply>,
  ): Promise<PageReply> => {
    if (oauth === null) return problem('not_found');
    if (person.via.kind !== 'session') return problem('session_required');
    const over = await overLimit(exchange, oauth.parts.limiter, oauthPolicy);
    if (over !== null) return over;
    const request = await readRequest(oauth.parts, new URLSearchParams(text));
    return request.kind === 'problem' ? request : decide(request, oauth.parts);
  };

  const authorize: Page = (request) =>
    forRequest(request, request.exchange.query, async (asked) =>
      asked.kind === 'faulty'
        ? faulty(asked, request.exchange.query)
        : consent(request, asked, request.exchange.query, noErrors),
    );

  const decideAuthorization: Page = (request) => {
    const { person, exchange, form, call } = request;
    const text = form.get('request') ?? '';
    return forRequest(request, text, async (asked, parts) => {
      if (asked.kind === 'faulty') return redirect(asked.to);
      if (form.get('decision') !== 'allow') return redirect(answerTo(parts, asked, { error: 'access_denied' }).to);
      const role = roles.find((one) => one === form.get('access'));
      const typed = field(form, 'agent_id');
      const found = role !== undefined || typed === '' ? { ids: [] } : await idsOf(call, 'agents', [typed]);
      const agentId = 'ids' in found ? found.ids[0] : undefined;
      if (role === undefined && agentId === undefined)
        return consent(
          request,
          asked,
          text,
          fieldError('agent_id', 'error' in found ? found.error : 'Choose an agent.'),
        );
      const actor = personActor({ ...person, via: { kind: 'session' } }, exchange);
      const confirmed = await confirm(exchange, person, actor, confirmation(form).current_password);
      const granted =
        confirmed.kind === 'problem'
          ? confirmed
          : await grant(parts, person, actor, asked, role === undefined ? { agentId: agentId! } : { role });
      if (granted.kind === 'done') return redirect(granted.value.to);
      const fields = { ...confirmationError(), agent_unknown: 'agent_id', forbidden: 'access' };
      return consent(request, asked, text, formErrors(granted, fields));
    });
  };

  return { authorize, decideAuthorization };
}

/** The page of a request that cannot be granted. The person decides whether the browser continues to the client. */
function faulty({ client, redirectUri, description }: Exclude<Asked, Known>, text: string): PageReply {
  const { origin, host } = new URL(redirectUri);
  const data = { client, host, request: text, fault: description };
  return view('authorize', `Connect ${client.name}`, data, { status: 422, formTo: origin });
}

async function consent(
  { person, call, form }: PageRequest,
  { client, redirectUri }: Known,
  text: string,
  feedback: FormFeedback,
): Promise<PageReply> {
  const { origin, host } = new URL(redirectUri);
  const mayChoose = allows(person.role, 'operator');
  const choices = mayChoose ? await choicesOf(call, 'agents', [], { active: true }) : null;
  const offered = roles.filter((role) => allows(person.role, role));
  const given = { access: form.get('access') ?? (mayChoose ? 'agent' : 'viewer'), agentId: form.get('agent_id') ?? '' };
  const data = { client, host, request: text, back: `/oauth/authorize?${text}`, choices, roles: offered, given };
  return { ...formView('authorize', `Connect ${client.name}`, data, feedback), formTo: origin };
}
