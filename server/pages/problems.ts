/** Problems as the overview shows them: a sentence, and the page where to act. */
import type { z } from 'zod';
import type { problemSchema } from '../api/problems/operations.ts';
import type { Role } from '../resources/users.ts';
import { address, count, plural, span } from './show.ts';

type FoundProblem = z.output<typeof problemSchema>;

interface ProblemCard {
  level: 'bad' | 'warn';
  title: string;
  detail: string;
  action: string;
  href: string;
  /** The lowest role that can open it. */
  role: Role;
}

/** @param nowMs Unix milliseconds */
export function problemCard(problem: FoundProblem, nowMs: number): ProblemCard {
  const card = describe(problem, nowMs);
  return { ...card, role: card.href.startsWith('/status') ? 'operator' : 'viewer' };
}

function describe(problem: FoundProblem, nowMs: number): Omit<ProblemCard, 'role'> {
  const { webhook_id, agent_id } = problem;
  const name = problem.name ?? '';
  const many = count(problem.count ?? 0);
  const age = problem.since === null ? '' : span(problem.since, nowMs);
  switch (problem.kind) {
    case 'process':
      return {
        level: 'bad',
        title: `Process ${name} does not respond`,
        detail: 'Its requests wait. The other processes serve.',
        action: 'Open the status',
        href: '/status#processes',
      };
    case 'rate_limits':
      return {
        level: 'warn',
        title: 'Rate limits are off',
        detail: 'The rate-limit store does not answer. Requests are accepted without being counted.',
        action: 'Open the status',
        href: '/status',
      };
    case 'dead_letters':
      return {
        level: 'bad',
        title: `${plural(problem.count ?? 0, 'dead letter')} in ${name}`,
        detail: 'The agent used up all attempts. Fix the cause, then replay them.',
        action: 'Review',
        href: address('/deliveries', { state: 'dead', agent_id }),
      };
    case 'pending':
      return {
        level: 'warn',
        title: `${name}: the oldest delivery waits for ${age}`,
        detail: 'The agent claims too little or has stopped.',
        action: 'Open the agent',
        href: `/agents/${agent_id}`,
      };
    case 'rejections':
      return {
        level: 'bad',
        title: `${name}: ${many} rejected in the last hour`,
        detail: 'Their signatures did not verify. The rejections name the reason and the fix.',
        action: 'See why',
        href: address('/rejections', { webhook_id }),
      };
    case 'limited':
      return {
        level: 'warn',
        title: `${name}: ${many} rate limited in the last hour`,
        detail: 'Senders repeat them. Raise the rate limit of the webhook if they are wanted.',
        action: 'Open the webhook',
        href: `/webhooks/${webhook_id}`,
      };
    case 'filter':
      return {
        level: 'warn',
        title: `${plural(problem.count ?? 0, 'filter')} of ${name} ${problem.count === 1 ? 'is' : 'are'} not valid in this version or suspended`,
        detail: 'Every event is delivered to the agent. Change the filter; the page of the agent says what is wrong.',
        action: 'Open the agent',
        href: `/agents/${agent_id}`,
      };
    case 'expiring':
      return {
        level: 'bad',
        title: `${plural(problem.count ?? 0, 'undelivered event')} ${problem.count === 1 ? 'is' : 'are'} removed within a day`,
        detail: 'No agent has settled them, and RETENTION_DAYS ends. Start the agents, or raise KEEP_UNDELIVERED_DAYS.',
        action: 'See them',
        href: address('/deliveries', { state: 'pending' }),
      };
    case 'archive':
      return {
        level: 'warn',
        title: `${plural(problem.count ?? 0, 'table')} of old days cannot be archived`,
        detail: 'They stay on disk until ARCHIVE_DIR can be written. The log event archive_failed has the reason.',
        action: 'Open the status',
        href: '/status#doctor',
      };
    case 'silent':
      return {
        level: 'warn',
        title: `${name} is silent for ${age}`,
        detail:
          problem.expect_every_seconds === null
            ? 'Its longest pause of the last seven days was less than half as long.'
            : `It expects an event every ${plural(problem.expect_every_seconds, 'second')}.`,
        action: 'Check the webhook',
        href: `/webhooks/${webhook_id}`,
      };
  }
}
