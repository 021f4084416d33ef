export { default as Graph } from "graphology";
export { default as Sigma } from "sigma";
