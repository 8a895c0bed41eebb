/** onnxruntime-common as one object; a module of its own, since Parcel loses it where all its names are exported, too. */

import * as common from "onnxruntime-common";

export default common;
