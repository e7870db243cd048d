import { useState, useSyncExternalStore } from "react";
import { CopilotChat, CopilotKitProvider, useFrontendTool, useInterrupt } from "@copilotkit/react-core/v2";
import { z } from "zod";
import { connection } from "./connection.js";

const AGENT = "assistant";

/** The thread is in the address, so that a reload and a second tab show the same one. */
function threadOfThePage() {
  const address = new URL(window.location.href);
  if (!address.searchParams.has("thread")) {
    address.searchParams.set("thread", crypto.randomUUID());
    window.history.replaceState(null, "", address);
  }
  return address.searchParams.get("thread");
}

export function App({ runtimeUrl }) {
  const [failure, setFailure] = useState();
  return (
    // The Inspector of development builds would load fonts from another host.
    <CopilotKitProvider
      runtimeUrl={runtimeUrl}
      agentId={AGENT}
      enableInspector={false}
      onError={({ error }) => setFailure(error.message)}
    >
      <Page failure={failure} dismiss={() => setFailure(undefined)} />
    </CopilotKitProvider>
  );
}

function Page({ failure, dismiss }) {
  const [thread] = useState(threadOfThePage);
  const [background, setBackground] = useState("white");
  const [open, setOpen] = useState(true);
  const link = useSyncExternalStore(connection.subscribe, connection.state);

  useFrontendTool({
    name: "set_background",
    description: "Gives the page another background",
    parameters: z.object({ colour: z.string().describe("A CSS colour") }),
    handler: async ({ colour }) => {
      setBackground(colour);
      return `The background is ${colour}.`;
    },
  });

  useInterrupt({
    agentId: AGENT,
    render: ({ interrupt, resolve }) => (
      <div className="question" role="group" aria-label="Approval">
        <p>{interrupt.message}</p>
        <button onClick={() => resolve({ approved: true })}>Approve</button>
        <button onClick={() => resolve({ approved: false })}>Deny</button>
      </div>
    ),
  });

  return (
    <main style={{ background }} data-background={background}>
      <header>
        <h1>CopilotKit on Runwire</h1>
        <output data-connection={link}>{link}</output>
        <button onClick={() => setOpen(!open)}>{open ? "Hide the chat" : "Show the chat"}</button>
        <a href="?">New thread</a>
      </header>
      {failure && (
        <p role="alert">
          {failure} <button onClick={dismiss}>Dismiss</button>
        </p>
      )}
      {open && <CopilotChat agentId={AGENT} threadId={thread} />}
    </main>
  );
}
