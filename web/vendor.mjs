// For maintainers: npm ci && npm run vendor. Makes static/vendor from the locked packages:
//   graph.js, layout-worker.js   bundles (sigma with graphology; our layout worker with ForceAtlas2)
//   graph.d.ts                   what graph.js exports, for the type checker
//   manifest.json                sha384 of each bundle; tests/web/test_vendor.py compares them
//   LICENSES.txt                 the licence of every package that is in a bundle
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const out = join(here, "static", "vendor");
const graph = `export { default as Graph } from "graphology";
export { default as Sigma } from "sigma";
`;
const bundles = {
  "graph.js": { stdin: { contents: graph, resolveDir: here } },
  "layout-worker.js": { entryPoints: [join(here, "layout-worker.js")] },
};

const hashes = {};
const packages = new Set();
mkdirSync(out, { recursive: true });
for (const [name, entry] of Object.entries(bundles)) {
  const { metafile } = await build({
    ...entry,
    absWorkingDir: here,
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2022",
    legalComments: "none", // they stand in LICENSES.txt
    metafile: true,
    outfile: join(out, name),
  });
  for (const input of Object.keys(metafile.inputs)) {
    const found = input.match(/node_modules\/((?:@[^/]+\/)?[^/]+)\//);
    if (found) packages.add(found[1]);
  }
  hashes[name] = `sha384-${createHash("sha384").update(readFileSync(join(out, name))).digest("base64")}`;
}
writeFileSync(join(out, "manifest.json"), `${JSON.stringify(hashes, null, 2)}\n`);
writeFileSync(join(out, "graph.d.ts"), graph);

const licences = [...packages].sort().map((name) => {
  const folder = join(here, "node_modules", name);
  const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).find((one) => /^licen[cs]e/i.test(one));
  if (!file) throw new Error(`${relative(here, folder)} has no licence file`);
  return `${name} ${version} (${license})\n\n${readFileSync(join(folder, file), "utf8").trim()}\n`;
});
writeFileSync(join(out, "LICENSES.txt"), licences.join(`\n${"-".repeat(80)}\n\n`));
console.log(`${Object.keys(bundles).join(", ")} from ${[...packages].sort().join(", ")}`);
