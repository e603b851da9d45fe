/** The lamp of an agent. */
import { span } from '../show.ts';
import { causeOf, type Lamp, type Tone, type Trouble } from './lamps.ts';

interface FlowAgent {
  id: string;
  name: string;
  paused: boolean;
  /** As agentState says it. */
  state: { word: string; tone: string };
  /** Undefined: its activity could not be read. */
  does:
    | {
        last_seen_at: string | null;
        last_seen_from: string | null;
        waiting_since: string | null;
        paused_at: string | null;
      }
    | undefined;
}

export function agentLamp(agent: FlowAgent, troubles: readonly Trouble[], nowMs: number): Lamp {
  const { id, name, paused, state, does } = agent;
  // Its pause is a cause of its own, which can be ended here.
  const own = troubles.filter(({ agent_id, kind }) => agent_id === id && kind !== 'paused');
  const waits = does?.waiting_since ? `; the oldest delivery waits for ${span(does.waiting_since, nowMs)}` : '';
  const seen = does?.last_seen_at ? `, seen ${span(does.last_seen_at, nowMs)} ago from ${does.last_seen_from}` : '';
  const causes = own.map(causeOf);
  if (paused)
    causes.unshift({
      text: 'The agent is paused: its deliveries wait.',
      since: does?.paused_at ?? null,
      fix: '',
      action: { text: 'Resume', href: `/agents/${id}/pause`, role: 'operator', fields: { paused: 'false' } },
    });
  else if (causes.length === 0 && (state.tone === 'bad' || state.tone === 'warn'))
    causes.push({
      text: `The agent is ${state.word}.`,
      since: state.word === 'stopped' ? (does?.last_seen_at ?? null) : null,
      fix:
        state.word === 'stopped'
          ? 'Start it; its own log says why it stopped.'
          : 'The reasons of its failed attempts are with its deliveries.',
      action: { text: 'Open the agent', href: `/agents/${id}`, role: 'viewer' },
    });
  const isBad = state.tone === 'bad' || own.some(({ kind }) => kind === 'pending' || kind === 'undelivered');
  return {
    id: `agent-${id}`,
    name,
    href: `/agents/${id}`,
    tone: causes.length > 0 ? (isBad ? 'bad' : 'warn') : (state.tone as Tone),
    text: `${state.word}${seen}${waits}`,
    causes,
  };
}
