//! Runs an artifact once on ones, and prints the first elements of each result.
//!
//!     rustc -O run.rs -L FOLDER_OF_LIBMGX -C link-arg=-Wl,-rpath,FOLDER_OF_LIBMGX
//!     ./run model.mgx cpu batch=4
//!
//! Sizes of named dimensions are words; inputs and results are of 32-bit floats here.
use std::collections::HashMap;
use std::ffi::{c_char, c_void, CStr, CString};
use std::mem::size_of;
use std::ptr::{null, null_mut};

#[repr(C)]
struct TensorInfo {
    struct_bytes: usize,
    name: *const c_char,
    kind: i32,
    rank: u32,
    sizes: *const i64,
    size_texts: *const *const c_char,
    may_share: i32,
}

#[repr(C)]
struct ArtifactInfo {
    struct_bytes: usize,
    texts: [*const c_char; 4], // name, producer, content hash, host operators
    targets: usize,
    inputs: usize,
    outputs: usize,
    dimensions: usize,
}

#[repr(C)]
struct Tensor {
    data: *mut c_void,
    sizes: *mut i64,
    rank: u32,
    kind: u32,
    memory: u32,
    flags: u32,
    bytes: u64,
}

#[link(name = "mgx")]
extern "C" {
    fn mgx_error_text(error: *mut c_void) -> *const c_char;
    fn mgx_artifact_open(path: *const c_char, options: *const c_void, out: *mut *mut c_void) -> *mut c_void;
    fn mgx_artifact_get_info(artifact: *mut c_void, info: *mut ArtifactInfo) -> *mut c_void;
    fn mgx_artifact_tensor(artifact: *mut c_void, way: i32, number: usize, info: *mut TensorInfo) -> *mut c_void;
    fn mgx_device_open(name: *const c_char, options: *const c_void, out: *mut *mut c_void) -> *mut c_void;
    fn mgx_program_create(artifact: *mut c_void, device: *mut c_void, options: *const c_void, out: *mut *mut c_void) -> *mut c_void;
    fn mgx_program_sizes(program: *mut c_void, inputs: *const Tensor, count: usize, outputs: *mut Tensor, outputs: usize, sizes: *mut c_void) -> *mut c_void;
    fn mgx_run(program: *mut c_void, inputs: *const Tensor, count: usize, outputs: *const Tensor, outputs: usize, options: *const c_void) -> *mut c_void;
}

const FLOAT32: i32 = 1;

fn text(words: *const c_char) -> String {
    unsafe { CStr::from_ptr(words).to_string_lossy().into_owned() }
}

fn check(error: *mut c_void) {
    if !error.is_null() {
        eprintln!("run: {}", text(unsafe { mgx_error_text(error) }));
        std::process::exit(1);
    }
}

/// The name of each input or output, and its sizes as texts.
fn signature(artifact: *mut c_void, way: i32, count: usize) -> Vec<(String, Vec<String>)> {
    let one = |number| unsafe {
        let mut info: TensorInfo = std::mem::zeroed();
        info.struct_bytes = size_of::<TensorInfo>();
        check(mgx_artifact_tensor(artifact, way, number, &mut info));
        assert_eq!(info.kind, FLOAT32, "{} has no 32-bit floats", text(info.name));
        let sizes = (0..info.rank as usize).map(|axis| text(*info.size_texts.add(axis)));
        (text(info.name), sizes.collect())
    };
    (0..count).map(one).collect()
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let (path, device_name) = (CString::new(&*words[1]).unwrap(), CString::new(&*words[2]).unwrap());
    let given: HashMap<&str, i64> = words[3..]
        .iter()
        .map(|word| word.split_once('=').expect("NAME=SIZE"))
        .map(|(name, size)| (name, size.parse().expect("a size")))
        .collect();
    let (mut artifact, mut device, mut program) = (null_mut(), null_mut(), null_mut());
    let mut info: ArtifactInfo = unsafe { std::mem::zeroed() };
    info.struct_bytes = size_of::<ArtifactInfo>();
    unsafe {
        check(mgx_artifact_open(path.as_ptr(), null(), &mut artifact));
        check(mgx_artifact_get_info(artifact, &mut info));
        check(mgx_device_open(device_name.as_ptr(), null(), &mut device));
        check(mgx_program_create(artifact, device, null(), &mut program));
    }

    let size = |text: &String| text.parse().unwrap_or_else(|_| given[text.as_str()]);
    let mut data: Vec<(Vec<i64>, Vec<f32>)> = signature(artifact, 0, info.inputs)
        .iter()
        .map(|(_, sizes)| sizes.iter().map(size).collect::<Vec<i64>>())
        .map(|sizes| (sizes.clone(), vec![1.0; sizes.iter().product::<i64>() as usize]))
        .collect();
    let tensor = |(sizes, values): &mut (Vec<i64>, Vec<f32>)| Tensor {
        data: values.as_mut_ptr().cast(),
        sizes: sizes.as_mut_ptr(),
        rank: sizes.len() as u32,
        kind: FLOAT32 as u32,
        memory: 1,
        flags: 0,
        bytes: 4 * values.len() as u64,
    };
    let inputs: Vec<Tensor> = data.iter_mut().map(tensor).collect();

    let outputs = signature(artifact, 1, info.outputs);
    let mut results: Vec<(Vec<i64>, Vec<f32>)> =
        outputs.iter().map(|(_, sizes)| (vec![0; sizes.len()], vec![])).collect();
    let mut found: Vec<Tensor> = results.iter_mut().map(tensor).collect();
    unsafe { check(mgx_program_sizes(program, inputs.as_ptr(), inputs.len(), found.as_mut_ptr(), found.len(), null_mut())) };
    for (sizes, values) in &mut results {
        values.resize(sizes.iter().product::<i64>() as usize, 0.0);
    }
    let found: Vec<Tensor> = results.iter_mut().map(tensor).collect();
    unsafe { check(mgx_run(program, inputs.as_ptr(), inputs.len(), found.as_ptr(), found.len(), null())) };
    for ((name, _), (sizes, values)) in outputs.iter().zip(&results) {
        println!("{name} {sizes:?}: {:?}", &values[..values.len().min(4)]);
    }
}
