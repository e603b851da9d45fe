/** Templates: compiled once each, from views/; everything they print is escaped unless they say `~`. */
import { fileURLToPath } from 'node:url';
import { Eta } from 'eta';
import * as show from './show.ts';

export class Renderer {
  readonly #eta = new Eta({
    views: fileURLToPath(new URL('../../views', import.meta.url)),
    cache: true,
    autoTrim: [false, 'nl'],
  });

  /** @param name below views/, without its ending. Templates read `it`, and the functions of show.ts as `it.show`. */
  render(name: string, data: object): string {
    return this.#eta.render(`./${name}`, { ...data, show });
  }
}
