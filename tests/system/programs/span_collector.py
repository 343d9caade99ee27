# SPDX-License-Identifier: BSD-2-Clause
"""A collector of spans: ``FILE`` gets one JSON object a line; it ends when its standard input does."""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"])))
        with open(sys.argv[1], "a") as file:
            for resource in asked.resource_spans:
                [service] = [
                    each.value.string_value for each in resource.resource.attributes if each.key == "service.name"
                ]
                for span in (span for scope in resource.scope_spans for span in scope.spans):
                    ids = {"trace": span.trace_id.hex(), "id": span.span_id.hex(), "parent": span.parent_span_id.hex()}
                    file.write(json.dumps({"service": service, "name": span.name, **ids}) + "\n")
        self.send_response(200)
        self.end_headers()

    def log_message(self, *words):
        pass


server = HTTPServer(("127.0.0.1", 4318), Collector)
threading.Thread(target=server.serve_forever, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
