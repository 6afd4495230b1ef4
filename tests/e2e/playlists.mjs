// node playlists.mjs FILE...: what hls-parser, in its strict mode, finds in each playlist; a JSON array, in order.
import { readFileSync } from "node:fs";
import HLS from "hls-parser";

HLS.setOptions({ strictMode: true });
const found = process.argv.slice(2).map((path) => HLS.parse(readFileSync(path, "utf8")));
console.log(JSON.stringify(found));
