import { AGENT_SERIES_MAX, type DatabaseFigures } from './database-figures.ts';
import type { MetricsSnapshot } from './messages.ts';

type Labels = Record<string, string>;
type Family = { values: { labels: Labels }[] };

/** The labels of the series that all other agents share. */
const OTHER = { agent: 'other', agent_name: '' };

/**
 * Limits the number of agent series on the metrics page. An agent that has a series keeps it until the primary ends: moving its total to
 * the shared series would count it twice.
 */
export class AgentSeries {
  readonly #names = new Map<string, string>();

  /** Adds new agents up to the limit, and updates the names of known agents. */
  admit(agents: DatabaseFigures['names']): void {
    for (const { id, name } of agents)
      if (this.#names.has(id) || this.#names.size < AGENT_SERIES_MAX) this.#names.set(id, name);
  }

  /** The value of the label `agent` for an agent: its id, or `other`. */
  known(id: string): string {
    return this.#names.has(id) ? id : OTHER.agent;
  }

  get ids(): string[] {
    return [...this.#names.keys()];
  }

  /** Adds the agent's name to the labels of each family. The metrics page sums series whose labels become equal. */
  label(snapshot: MetricsSnapshot): MetricsSnapshot {
    return (snapshot as Family[]).map((family) =>
      family.values.some(({ labels }) => labels.agent !== undefined)
        ? { ...family, values: family.values.map((value) => ({ ...value, labels: this.#labelsOf(value.labels) })) }
        : family,
    );
  }

  #labelsOf(labels: Labels): Labels {
    const { agent } = labels;
    if (agent === undefined) return labels;
    const name = this.#names.get(agent);
    return { ...labels, ...(name === undefined ? OTHER : { agent, agent_name: name }) };
  }
}
