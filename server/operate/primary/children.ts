/** All serving processes of the primary, with the messages and questions sent to them. */
import { buildName } from '../../base/files/build.ts';
import type { Child } from './child.ts';
import type { MetricsSnapshot, ToProcess } from './messages.ts';

const METRICS_TIMEOUT_MS = 1_000;
const APPLIED_TIMEOUT_MS = 900;
const PREPARED_TIMEOUT_MS = 3_000;
/** Time in each second for processes to answer. A later answer counts in the next second. */
const SAMPLE_TIMEOUT_MS = 250;

export class Children {
  readonly #children = new Set<Child>();

  get size(): number {
    return this.#children.size;
  }

  add(child: Child): void {
    this.#children.add(child);
  }

  delete(child: Child): void {
    this.#children.delete(child);
  }

  /** Oldest first. */
  all(): Child[] {
    return [...this.#children];
  }

  /** Processes in one of these states, oldest first. */
  in(...states: Child['state'][]): Child[] {
    return this.all().filter(({ state }) => states.includes(state));
  }

  /** The builds that serve, such as `1.0.0 (b1fad92c2f04)`: one, or two during an upgrade. */
  get builds(): string {
    const names = this.in('serving').flatMap(({ build }) => (build === null ? [] : [buildName(build)]));
    return [...new Set(names)].join(', ');
  }

  broadcast(message: ToProcess): void {
    for (const child of this.#children) child.send(message);
  }

  /** Resolves when every listening process has applied the change, or after APPLIED_TIMEOUT_MS. */
  async applyEverywhere(payload: string): Promise<void> {
    await this.#askAll((number) => ({ kind: 'change', number, payload }), APPLIED_TIMEOUT_MS);
  }

  /** Resolves when every listening process stores events, or after PREPARED_TIMEOUT_MS. */
  async useDatabase(): Promise<void> {
    await this.#askAll((number) => ({ kind: 'database_prepared', number }), PREPARED_TIMEOUT_MS);
  }

  /** Returns current metrics of all processes; for a process that does not answer in time, its last known metrics. */
  async collectMetrics(): Promise<MetricsSnapshot[]> {
    await this.#askAll((number) => ({ kind: 'collect_metrics', number }), METRICS_TIMEOUT_MS);
    return this.all().flatMap(({ lastSnapshot }) => (lastSnapshot === null ? [] : [lastSnapshot]));
  }

  /** Requests the counts of each process. An answer after the timeout counts later. A process that stays silent is killed and replaced. */
  async takeSamples(): Promise<void> {
    for (const child of this.#children) child.checkSilence();
    await this.#askAll((number) => ({ kind: 'take_sample', number }), SAMPLE_TIMEOUT_MS);
  }

  async #askAll(question: (number: number) => ToProcess, timeoutMs: number): Promise<void> {
    await Promise.all(this.all().map((child) => child.ask(question, timeoutMs)));
  }
}
