// Runs an artifact once on ones, and prints the first elements of each result.
//
//	CGO_CFLAGS=$(pkg-config --cflags mgx) CGO_LDFLAGS=$(pkg-config --libs mgx) go build run.go
//	./run model.mgx cpu batch=4
//
// Sizes of named dimensions are words; inputs and results are of 32-bit floats here.
package main

// #cgo LDFLAGS: -lmgx
// #include <mgx.h>
// #include <stdlib.h>
import "C"

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"
)

func stop(words ...any) {
	fmt.Fprintln(os.Stderr, append([]any{"run:"}, words...)...)
	os.Exit(1)
}

func check(failed *C.mgx_error) {
	if failed != nil {
		stop(C.GoString(C.mgx_error_text(failed)))
	}
}

// Zeros that C may keep: Go moves its own memory.
func memory[Item any](count int) []Item {
	var item Item
	made := C.calloc(C.size_t(count+1), C.size_t(unsafe.Sizeof(item)))
	return unsafe.Slice((*Item)(made), count+1)[:count]
}

func first[Item any](items []Item) *Item { return &items[:1][0] }

// An input or output, and the texts of its sizes.
type signature struct {
	name  string
	sizes []string
}

func signatures(artifact *C.mgx_artifact, way C.mgx_direction, count C.size_t) []signature {
	found := make([]signature, count)
	for i := range found {
		info := C.mgx_tensor_info{}
		info.struct_bytes = C.sizeof_mgx_tensor_info
		check(C.mgx_artifact_tensor(artifact, way, C.size_t(i), &info))
		found[i].name = C.GoString(info.name)
		if info._type != C.MGX_FLOAT32 {
			stop(found[i].name, "has no 32-bit floats")
		}
		for _, text := range unsafe.Slice(info.size_texts, info.rank) {
			found[i].sizes = append(found[i].sizes, C.GoString(text))
		}
	}
	return found
}

// The sizes of tensors, where mgx_program_sizes may write them.
func tensors(of []signature) ([]C.mgx_tensor, [][]C.int64_t) {
	made, sizes := memory[C.mgx_tensor](len(of)), make([][]C.int64_t, len(of))
	for i, tensor := range of {
		sizes[i] = memory[C.int64_t](len(tensor.sizes))
		made[i].sizes = first(sizes[i])
		made[i].rank = C.uint32_t(len(sizes[i]))
	}
	return made, sizes
}

// Gives a tensor memory for its elements.
func fill(tensor *C.mgx_tensor, sizes []C.int64_t, value float32) []float32 {
	count := 1
	for _, size := range sizes {
		count *= int(size)
	}
	values := memory[float32](count)
	for i := range values {
		values[i] = value
	}
	tensor.data = unsafe.Pointer(first(values))
	tensor._type = C.MGX_FLOAT32
	tensor.memory = C.MGX_MEMORY_HOST
	tensor.bytes = C.uint64_t(4 * count)
	return values
}

func main() {
	if len(os.Args) < 3 {
		stop("usage: run MODEL.mgx DEVICE NAME=SIZE...")
	}
	dims := map[string]int{}
	for _, word := range os.Args[3:] {
		name, size, _ := strings.Cut(word, "=")
		dims[name], _ = strconv.Atoi(size)
	}
	var artifact *C.mgx_artifact
	var device *C.mgx_device
	var program *C.mgx_program
	info := C.mgx_artifact_info{}
	info.struct_bytes = C.sizeof_mgx_artifact_info
	check(C.mgx_artifact_open(C.CString(os.Args[1]), nil, &artifact))
	check(C.mgx_artifact_get_info(artifact, &info))
	check(C.mgx_device_open(C.CString(os.Args[2]), nil, &device))
	check(C.mgx_program_create(artifact, device, nil, &program))

	of := signatures(artifact, C.MGX_INPUT, info.input_count)
	inputs, sizes := tensors(of)
	for i, tensor := range of {
		for axis, text := range tensor.sizes {
			size, failed := strconv.Atoi(text)
			if failed != nil {
				size = dims[text]
			}
			sizes[i][axis] = C.int64_t(size)
		}
		fill(&inputs[i], sizes[i], 1)
	}
	of = signatures(artifact, C.MGX_OUTPUT, info.output_count)
	outputs, sizes := tensors(of)
	check(C.mgx_program_sizes(program, first(inputs), info.input_count, first(outputs), info.output_count, nil))
	results := make([][]float32, len(of))
	for i := range results {
		results[i] = fill(&outputs[i], sizes[i], 0)
	}
	check(C.mgx_run(program, first(inputs), info.input_count, first(outputs), info.output_count, nil))
	for i, tensor := range of {
		shown := results[i]
		if len(shown) > 4 {
			shown = shown[:4]
		}
		fmt.Println(tensor.name, sizes[i], shown)
	}
}
