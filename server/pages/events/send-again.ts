/** /events/{id}/edit: the form that sends an event again with changes, through the webhook's own address. */
import { isUtf8 } from 'node:buffer';
import { problem } from '../../base/http/problem.ts';
import { describeEvent } from '../../manage/api/events/filter.ts';
import { isTestHeader } from '../../manage/api/webhooks/test-request.ts';
import { readableBody } from '../../model/signatures/gzip.ts';
import type { Database } from '../../store/connect/pool.ts';
import { isTimedId } from '../../store/ids.ts';
import { findEvent } from '../../store/queries/events/events.ts';
import { field, fieldError, formErrors, noErrors } from '../forms/form.ts';
import { asProblem, type FormFeedback, formView, type Page, redirect } from '../page.ts';
import { prettyJson } from './body/json.ts';

/** Largest body that can be edited; the operation has the same limit in characters. */
const EDITED_BYTES_MAX = 65_536;

/** Whether the body can be edited as text. */
export function isEditable(body: Buffer): boolean {
  return body.length <= EDITED_BYTES_MAX && isUtf8(body) && !body.includes(0);
}

/** JSON with one member or element a line, unless it is then too long to send; other text as it is. */
function editedText(body: Buffer): string {
  const pretty = prettyJson(body, EDITED_BYTES_MAX);
  return pretty?.complete && pretty.text.length <= EDITED_BYTES_MAX ? pretty.text : body.toString('utf8');
}

/** The form with the stored event, and its submission, which sends a signed request. */
export function sendAgainPages(database: Database) {
  const find = (id: string) => (isTimedId(id) ? findEvent(database, null, id.toLowerCase()) : undefined);

  const editEvent: Page = async ({ id }) => {
    const stored = await find(id);
    if (stored === undefined) return problem('event_unknown');
    const { headers, content_type } = describeEvent(stored);
    const body = readableBody(stored.body, headers['content-encoding']);
    if (!isEditable(body))
      return asProblem({ kind: 'invalid', errors: { '': 'This body is too large to edit here, or it is not text.' } });
    const lines = Object.entries(headers).filter(([name]) => isTestHeader(name));
    const values = {
      body: editedText(body),
      content_type: content_type ?? 'application/octet-stream',
      headers: lines.map(([name, value]) => `${name}: ${value}`).join('\n'),
    };
    return editView(id, values, noErrors);
  };

  const sendEvent: Page = async ({ call, id, form }) => {
    const stored = await find(id);
    if (stored === undefined) return problem('event_unknown');
    const values = {
      body: field(form, 'body'),
      content_type: field(form, 'content_type'),
      headers: field(form, 'headers'),
    };
    const headers = headersOf(values.headers);
    if (headers === null) return editView(id, values, fieldError('headers', 'Give one header a line: NAME: VALUE.'));
    const sent = await call('testWebhook', { id: stored.webhook_id, input: { ...values, headers } });
    if (sent.kind !== 'done') return editView(id, values, formErrors(sent));
    const { status, answer, event_id: newId } = sent.body;
    if (newId !== null) return redirect(`/events/${newId}`, 'sent-again');
    const { detail } = (answer ?? {}) as { detail?: unknown };
    const why = `${status === null ? 'It was not sent.' : `The response was ${status}.`} ${typeof detail === 'string' ? detail : ''}`;
    return editView(id, values, fieldError('', why.trim()));
  };

  return { editEvent, sendEvent };
}

const editView = (id: string, values: object, feedback: FormFeedback) =>
  formView('events/edit', 'Edit and send again', { id, values }, feedback);

/** Parses `NAME: VALUE` lines; null when a line is not a header. */
function headersOf(text: string): Record<string, string> | null {
  const headers: Record<string, string> = {};
  for (const line of text.split('\n').filter((one) => one.trim() !== '')) {
    const colon = line.indexOf(':');
    if (colon < 1) return null;
    headers[line.slice(0, colon).trim().toLowerCase()] = line.slice(colon + 1).trim();
  }
  return headers;
}
