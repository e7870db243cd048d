import { defineConfig } from "vite";

export default defineConfig({
  // The server's `cors_origins` names this port.
  server: { port: 5173, strictPort: true, fs: { allow: [".", "../../clients/js"] } },
  build: { chunkSizeWarningLimit: 8000, reportCompressedSize: false, modulePreload: false },
});
