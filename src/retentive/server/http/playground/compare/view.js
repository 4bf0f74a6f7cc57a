export const title = "Compare";
export function mount() {}
