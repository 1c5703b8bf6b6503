// Runs an artifact once on ones, and prints the first elements of each result.
//
//   npm install koffi
//   LD_LIBRARY_PATH=FOLDER_OF_LIBMGX node run.mjs model.mgx cpu batch=4
//
// Sizes of named dimensions are words; inputs and results are of 32-bit floats here.
import koffi from "koffi";

const INPUT = 0, OUTPUT = 1, FLOAT32 = 1, HOST = 1;

koffi.struct("mgx_artifact_info", {
  struct_bytes: "size_t", name: "str", producer: "str", content_hash: "str", host_operators: "str",
  targets: "size_t", inputs: "size_t", outputs: "size_t", dimensions: "size_t",
});
koffi.struct("mgx_tensor_info", {
  struct_bytes: "size_t", name: "str", type: "int", rank: "uint32_t", sizes: "void *",
  size_texts: "void *", may_share: "int32_t",
});
koffi.struct("mgx_tensor", {
  data: "void *", sizes: "void *", rank: "uint32_t", type: "uint32_t", memory: "uint32_t",
  flags: "uint32_t", bytes: "uint64_t",
});

const library = koffi.load("libmgx.so");
const errorText = library.func("const char *mgx_error_text(void *error)");

// A function of libmgx that gives an error or null.
function checked(declaration) {
  const call = library.func(`void *${declaration}`);
  return (...words) => {
    const failed = call(...words);
    if (!failed) return;
    console.error(`run: ${errorText(failed)}`);
    process.exit(1);
  };
}

const open = checked("mgx_artifact_open(const char *path, void *options, _Out_ void **artifact)");
const getInfo = checked("mgx_artifact_get_info(void *artifact, _Inout_ mgx_artifact_info *info)");
const getTensor = checked("mgx_artifact_tensor(void *artifact, int way, size_t number, _Inout_ mgx_tensor_info *info)");
const openDevice = checked("mgx_device_open(const char *name, void *options, _Out_ void **device)");
const create = checked("mgx_program_create(void *artifact, void *device, void *options, _Out_ void **program)");
const getSizes = checked("mgx_program_sizes(void *program, mgx_tensor *inputs, size_t count, mgx_tensor *outputs, size_t results, void *sizes)");
const run = checked("mgx_run(void *program, mgx_tensor *inputs, size_t count, mgx_tensor *outputs, size_t results, void *options)");

// What a function of libmgx writes to its last argument.
function made(call, ...words) {
  const out = [null];
  call(...words, out);
  return out[0];
}

function information(call, type, ...words) {
  const info = { struct_bytes: koffi.sizeof(type) };
  call(...words, info);
  return info;
}

// Name and sizes, as texts, of each input or output.
function signature(artifact, way, count) {
  return Array.from({ length: count }, (_, number) => {
    const { name, type, rank, size_texts } = information(getTensor, "mgx_tensor_info", artifact, way, number);
    if (type !== FLOAT32) throw new Error(`${name} has no 32-bit floats`);
    return { name, sizes: rank ? koffi.decode(size_texts, "const char *", rank) : [] };
  });
}

// `sizes` is a BigInt64Array, which mgx_program_sizes may write.
function tensor(sizes, value) {
  const data = new Float32Array(sizes.reduce((product, size) => product * Number(size), 1)).fill(value);
  return { data, sizes, rank: sizes.length, type: FLOAT32, memory: HOST, flags: 0, bytes: data.byteLength };
}

const [path, deviceName, ...words] = process.argv.slice(2);
const given = Object.fromEntries(words.map((word) => word.split("=")));
const artifact = made(open, path, null);
const info = information(getInfo, "mgx_artifact_info", artifact);
const device = made(openDevice, deviceName, null);
const program = made(create, artifact, device, null);

const inputs = signature(artifact, INPUT, info.inputs).map(({ sizes }) =>
  tensor(BigInt64Array.from(sizes, (text) => BigInt(given[text] ?? text)), 1));
const outputs = signature(artifact, OUTPUT, info.outputs);
const sizes = outputs.map((output) => new BigInt64Array(output.sizes.length));
getSizes(program, inputs, inputs.length, sizes.map((one) => tensor(one, 0)), sizes.length, null);
const results = sizes.map((one) => tensor(one, 0));
run(program, inputs, inputs.length, results, results.length, null);
outputs.forEach(({ name }, i) =>
  console.log(`${name} [${results[i].sizes.join(" ")}] [${results[i].data.slice(0, 4).join(" ")}]`));
