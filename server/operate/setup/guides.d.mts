export function anchorOf(heading: string, seen: Map<string, number>): string;
