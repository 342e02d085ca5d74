import { head } from "./common.js";

head("/");
