/** The members of a webhook that say what its sender gets as the answer. */
import {
  type Answer,
  answerFault,
  answerSchema,
  type RefusedStatus,
  refusedStatusSchema,
} from './signatures/answer.ts';
import type { SchemeDefinition } from './signatures/definition.ts';
import { presetNamed } from './signatures/presets.ts';
import type { Table } from './table.ts';
import { isUnverified } from './webhook-schemes.ts';

const ANSWER = 'response to a request that was stored, or is a duplicate; null: as the scheme says, by default 202';
const REFUSED_STATUS =
  'status of the response to a request whose signature is refused; null: as the scheme says, by default 403';

/** The members, in the table of a webhook. */
export const answerFields = {
  answer: {
    input: answerSchema.nullable().describe(ANSWER),
    initial: null,
    output: answerSchema.nullable().describe(ANSWER),
    command: { flags: '--answer-file <file>', text: 'response to a request that was stored, as JSON' },
    form: {
      label: 'Answer (JSON)',
      hint: 'For senders that demand another one than 202, such as {"status":200,"content_type":"text/plain","body":"ok"}. Empty: as the scheme says.',
      guide: 'senders#answers',
      type: 'json',
      rows: 2,
    },
  },
  refused_status: {
    input: refusedStatusSchema.nullable().describe(REFUSED_STATUS),
    initial: null,
    output: refusedStatusSchema.nullable().describe(REFUSED_STATUS),
    command: { flags: '--refused-status <status>', text: 'status for a signature that is refused: 401 or 403' },
    form: { label: 'Status of a refused signature', hint: '401 or 403. Empty: as the scheme says, by default 403.' },
  },
} as const satisfies Table;

interface AnswerMembers {
  signature_scheme: string;
  scheme_definition: SchemeDefinition | null;
  has_secret: boolean;
  answer: Answer | null;
  refused_status: RefusedStatus | null;
}

/** The answers of a webhook, its own or those of its scheme. `answer` null: the usual 202. */
export function answersOf(members: Omit<AnswerMembers, 'has_secret'>): {
  answer: Answer | null;
  refusedStatus: RefusedStatus;
} {
  const definition = members.scheme_definition ?? presetNamed(members.signature_scheme)?.definition;
  return {
    answer: members.answer ?? definition?.answer ?? null,
    refusedStatus: members.refused_status ?? definition?.refused_status ?? 403,
  };
}

/** What is wrong with the answers of a webhook and of its definition; null: nothing. */
export function answersFault(
  members: Omit<AnswerMembers, 'refused_status'>,
): { member: string; detail: string } | null {
  const verifies = !isUnverified(members);
  const faultOf = (member: string, answer: Answer | null | undefined) => {
    const detail = answer ? answerFault(answer, verifies) : null;
    return detail === null ? null : { member, detail };
  };
  return faultOf('answer', members.answer) ?? faultOf('scheme_definition/answer', members.scheme_definition?.answer);
}
