export const documents: readonly string[];
export const figures: Readonly<Record<string, string>>;
export const regions: Readonly<Record<string, string>>;
export function withFigures(text: string): string;
