import { AGENT_SERIES_MAX, type DatabaseFigures } from './database-figures.ts';
import type { MetricsSnapshot } from './messages.ts';

type Labels = Record<string, string>;
type Family = { values: { labels: Labels }[] };

/** The value of the label `agent` that all other agents share. */
const OTHER = { agent: 'other', agent_name: '' };

/**
 * Bounds the series of agents on the page. An agent that has a series keeps it until the primary ends: a total that moved to the shared
 * series would count twice.
 */
export class AgentSeries {
  readonly #names = new Map<string, string>();

  /** New agents while there is room, and the names of now. */
  admit(agents: DatabaseFigures['names']): void {
    for (const { id, name } of agents)
      if (this.#names.has(id) || this.#names.size < AGENT_SERIES_MAX) this.#names.set(id, name);
  }

  /** The value of the label `agent` for this one. */
  known(id: string): string {
    return this.#names.has(id) ? id : OTHER.agent;
  }

  get ids(): string[] {
    return [...this.#names.keys()];
  }

  /** The same families, with the agent's name beside its id. Series that share their labels afterwards are summed by the page. */
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
