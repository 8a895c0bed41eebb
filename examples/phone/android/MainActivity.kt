package org.example.shapes

import android.Manifest
import android.content.pm.PackageManager
import android.os.Bundle
import android.webkit.PermissionRequest
import android.webkit.WebChromeClient
import android.webkit.WebResourceRequest
import android.webkit.WebResourceResponse
import android.webkit.WebView
import androidx.activity.ComponentActivity
import androidx.activity.result.contract.ActivityResultContracts
import androidx.webkit.WebViewAssetLoader
import androidx.webkit.WebViewClientCompat

/** Shows `assets/index.html` as a page of https, as cameras, workers and modules want it; nothing comes from a network. */
class MainActivity : ComponentActivity() {
    private var asked: PermissionRequest? = null
    private val permission = registerForActivityResult(ActivityResultContracts.RequestPermission()) { isGranted ->
        if (isGranted) asked?.grant(arrayOf(PermissionRequest.RESOURCE_VIDEO_CAPTURE)) else asked?.deny()
        asked = null
    }

    override fun onCreate(state: Bundle?) {
        super.onCreate(state)
        val assets = WebViewAssetLoader.Builder()
            .addPathHandler("/", WebViewAssetLoader.AssetsPathHandler(this))
            .build()
        val view = WebView(this)
        view.settings.javaScriptEnabled = true
        view.settings.mediaPlaybackRequiresUserGesture = false
        view.webViewClient = object : WebViewClientCompat() {
            override fun shouldInterceptRequest(view: WebView, request: WebResourceRequest): WebResourceResponse? =
                assets.shouldInterceptRequest(request.url)
        }
        view.webChromeClient = object : WebChromeClient() {
            override fun onPermissionRequest(request: PermissionRequest) = runOnUiThread {
                when {
                    PermissionRequest.RESOURCE_VIDEO_CAPTURE !in request.resources -> request.deny()
                    checkSelfPermission(Manifest.permission.CAMERA) == PackageManager.PERMISSION_GRANTED ->
                        request.grant(arrayOf(PermissionRequest.RESOURCE_VIDEO_CAPTURE))
                    else -> {
                        asked = request
                        permission.launch(Manifest.permission.CAMERA)
                    }
                }
            }
        }
        setContentView(view)
        view.loadUrl("https://${WebViewAssetLoader.DEFAULT_DOMAIN}/index.html")
    }
}
