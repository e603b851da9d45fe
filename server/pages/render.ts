/** Templates from views/, each compiled once. All output is escaped except with `~`. */
import { Eta } from 'eta';
import { builtFile } from '../base/files/build.ts';
import * as show from './show.ts';

export class Renderer {
  readonly #eta = new Eta({
    views: builtFile('views'),
    cache: true,
    autoTrim: [false, 'nl'],
  });

  /** @param name path below views/ without extension. Templates read `data` as `it`, and the functions of show.ts as `it.show`. */
  render(name: string, data: object): string {
    return this.#eta.render(`./${name}`, { ...data, show });
  }
}
