// The page of a table, or of two with the same deal.

import { at, head } from "./common.js";
import * as me from "./me.js";
import { TableView } from "./tableview.js";

head("/");
const id = location.pathname.split("/").pop();
const main = at("main");
const view = new TableView(main, id, decodeURIComponent(location.hash.slice(1)));
let second = null;
view.onView = (shown) => {
  document.title = `${shown.legal?.length ? "● " : ""}${shown.title} – jaxrl`;
  if (!shown.beside || second) return;
  second = new TableView(main, shown.beside, "", { quiet: true });
  main.classList.add("pair");
};
document.addEventListener("keydown", (event) => view.key(event));
window.tableView = view; // for tests in a browser
addEventListener("hashchange", () => location.reload());
view.invitations = () => me.keysOf(id);
