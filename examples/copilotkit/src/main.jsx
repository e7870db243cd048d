import { createRoot } from "react-dom/client";
import { resumableFetch } from "runwire";
import { App } from "./app.jsx";
import { connection } from "./connection.js";
import "@copilotkit/react-core/v2/styles.css";
import "./app.css";

// CopilotKit's client takes a lost connection for the end of the run. With this `fetch` it does not notice one.
window.fetch = resumableFetch({ onStatus: connection.tell });

const runtimeUrl = document.querySelector("meta[name=runtime-url]").content;
createRoot(document.getElementById("app")).render(<App runtimeUrl={runtimeUrl} />);
