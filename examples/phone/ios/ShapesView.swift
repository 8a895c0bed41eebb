import SwiftUI
import UniformTypeIdentifiers
import WebKit

/// The folder `page` of the app, shown by WebKit under a scheme of its own: modules and workers are refused from files.
struct ShapesView: UIViewRepresentable {
    func makeUIView(context: Context) -> WKWebView {
        let configuration = WKWebViewConfiguration()
        configuration.allowsInlineMediaPlayback = true
        configuration.setURLSchemeHandler(Pages(), forURLScheme: "shapes")
        let view = WKWebView(frame: .zero, configuration: configuration)
        view.uiDelegate = context.coordinator
        view.load(URLRequest(url: URL(string: "shapes://page/index.html")!))
        return view
    }

    func updateUIView(_ view: WKWebView, context: Context) {}

    func makeCoordinator() -> Coordinator { Coordinator() }

    final class Coordinator: NSObject, WKUIDelegate {
        /// iOS has asked for the camera already (NSCameraUsageDescription); the page need not ask again.
        func webView(
            _ view: WKWebView, requestMediaCapturePermissionFor origin: WKSecurityOrigin, initiatedByFrame frame: WKFrameInfo,
            type: WKMediaCaptureType, decisionHandler: @escaping (WKPermissionDecision) -> Void
        ) {
            decisionHandler(type == .camera && origin.protocol == "shapes" ? .grant : .deny)
        }
    }
}

/// Answers the page's requests with files.
final class Pages: NSObject, WKURLSchemeHandler {
    private let folder = Bundle.main.resourceURL!.appendingPathComponent("page", isDirectory: true).standardizedFileURL
    private let types = ["js": "text/javascript", "sdx": "application/octet-stream", "webmanifest": "application/manifest+json"]

    func webView(_ view: WKWebView, start task: any WKURLSchemeTask) {
        let url = task.request.url!
        let file = folder.appendingPathComponent(url.path).standardizedFileURL
        guard file.path.hasPrefix(folder.path), let data = try? Data(contentsOf: file) else {
            task.didFailWithError(URLError(.fileDoesNotExist))
            return
        }
        let known = types[file.pathExtension] ?? UTType(filenameExtension: file.pathExtension)?.preferredMIMEType
        let headers = ["Content-Type": known ?? "application/octet-stream", "Content-Length": String(data.count)]
        task.didReceive(HTTPURLResponse(url: url, statusCode: 200, httpVersion: "HTTP/1.1", headerFields: headers)!)
        task.didReceive(data)
        task.didFinish()
    }

    func webView(_ view: WKWebView, stop task: any WKURLSchemeTask) {}
}

@main
struct ShapesApp: App {
    var body: some Scene {
        WindowGroup { ShapesView().ignoresSafeArea() }
    }
}
