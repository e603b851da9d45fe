/** Templates from views/, each compiled once. All output is escaped except with `~`. */
import { Eta } from 'eta';
import { builtFile } from '../../base/files/build.ts';
import * as show from '../show.ts';

export class Renderer {
  readonly #eta = new Eta({
    views: builtFile('views'),
    cache: true,
    autoTrim: [false, 'nl'],
  });

  constructor() {
    // A page of 50 events includes 200 partials, and Eta builds a JSON text to look up each path: a sixth of the time of rendering.
    const resolve = this.#eta.resolvePath!.bind(this.#eta);
    const paths = new Map<string, string>();
    this.#eta.resolvePath = (template, options) => {
      const key = `${options?.filepath} ${template}`;
      const path = paths.get(key) ?? resolve(template, options);
      paths.set(key, path);
      return path;
    };
  }

  /** @param name path below views/ without extension. Templates read `data` as `it`, and the functions of show.ts as `it.show`. */
  render(name: string, data: object): string {
    return this.#eta.render(`./${name}`, { ...data, show });
  }
}
