"""Graphs built node by node: structure, execution, updates."""

from __future__ import annotations

import ctypes
import re

import numpy as np
import pytest
from hip import hip
from hip_support import (
    HOST_FN,
    Arguments,
    E,
    K,
    all_nodes,
    code,
    download,
    entry,
    handles,
    kernel_params,
    ok,
    raw,
    upload,
    used_bytes,
    void,
)

N = hip.hipGraphNodeType
U = hip.hipGraphExecUpdateResult


@pytest.fixture
def graph():
    return ok(hip.hipGraphCreate(0))


def after(*nodes):
    """Dependencies as two arguments."""
    return (handles(*nodes), len(nodes)) if nodes else (None, 0)


def fill_params(pointer, value, count, element=4):
    params = hip.hipMemsetParams()
    params.dst, params.value, params.elementSize = int(pointer), value, element
    params.width, params.height, params.pitch = count, 1, count * element
    return params


def add_fill(graph, pointer, value, count, *before, element=4):
    params = fill_params(pointer, value, count, element)
    return ok(hip.hipGraphAddMemsetNode(graph, *after(*before), params))


def add_copy(graph, dst, src, size, *before, kind=K.hipMemcpyDefault):
    return ok(hip.hipGraphAddMemcpyNode1D(graph, *after(*before), dst, src, size, kind))


def add_empty(graph, *before):
    return ok(hip.hipGraphAddEmptyNode(graph, *after(*before)))


def add_host(graph, function, data, *before):
    params = hip.hipHostNodeParams()
    params.fn, params.userData = entry(function), data
    return ok(hip.hipGraphAddHostNode(graph, *after(*before), params))


def instantiate(graph):
    return ok(hip.hipGraphInstantiateWithFlags(graph, 0))


def run(executable, stream=0):
    ok(hip.hipGraphLaunch(executable, stream))
    ok(hip.hipStreamSynchronize(stream))


def test_a_chain_of_every_simple_node(graph, stream):
    a, b = ok(hip.hipMalloc(256)), ok(hip.hipMalloc(256))
    out = np.zeros(64, np.uint32)
    seen = []
    note = HOST_FN(lambda data: seen.append(data))
    first = add_fill(graph, a, 0xABCD, 64)
    second = add_copy(graph, b, a, 256, first)
    gap = add_empty(graph, second)
    third = add_copy(graph, out, b, 256, gap, kind=K.hipMemcpyDeviceToHost)
    add_host(graph, note, 0x99, third)
    executable = instantiate(graph)
    for times in (1, 2, 3):
        out[:] = 0
        run(executable, stream)
        assert (out == 0xABCD).all() and seen == [0x99] * times


def test_kernel_nodes_copy_their_arguments(graph, kernel, stream):
    x = upload(np.zeros(64, np.float32))
    arguments = Arguments(x, 64, 1.5)
    params = kernel_params(kernel("add_value"), arguments)
    ok(hip.hipGraphAddKernelNode(graph, None, 0, params))
    arguments.values[2].value = 100.0
    executable = instantiate(graph)
    for _ in range(4):
        run(executable, stream)
    assert (download(x, 64) == 6).all()


def test_dependencies_order_nodes_that_were_added_the_other_way(graph, stream):
    x = ok(hip.hipMalloc(64))
    late = add_fill(graph, x, 2, 16)
    early = add_fill(graph, x, 1, 16)
    ok(hip.hipGraphAddDependencies(graph, handles(early), handles(late), 1))
    run(instantiate(graph), stream)
    assert (download(x, 16, np.uint32) == 2).all()


def test_nodes_and_edges_can_be_asked_for(graph):
    a = add_empty(graph)
    b = add_empty(graph, a)
    c = add_empty(graph, a)
    d = add_empty(graph, b, c)
    assert all_nodes(raw.hipGraphGetNodes, graph) == [int(n) for n in (a, b, c, d)]
    assert all_nodes(raw.hipGraphGetRootNodes, graph) == [int(a)]
    assert set(all_nodes(raw.hipGraphNodeGetDependencies, d)) == {int(b), int(c)}
    assert set(all_nodes(raw.hipGraphNodeGetDependentNodes, a)) == {int(b), int(c)}
    count = ctypes.c_size_t()
    assert raw.hipGraphGetEdges(void(graph), None, None, ctypes.byref(count)) == 0
    assert count.value == 4
    start, end = (ctypes.c_void_p * 4)(), (ctypes.c_void_p * 4)()
    assert raw.hipGraphGetEdges(void(graph), start, end, ctypes.byref(count)) == 0
    edges = {(start[i], end[i]) for i in range(4)}
    assert (int(a), int(b)) in edges and (int(c), int(d)) in edges


def test_lists_larger_than_the_graph_are_padded(graph):
    node = add_empty(graph)
    room = (ctypes.c_void_p * 3)(1, 1, 1)
    count = ctypes.c_size_t(3)
    assert raw.hipGraphGetNodes(void(graph), room, ctypes.byref(count)) == 0
    assert count.value == 1 and list(room) == [int(node), None, None]
    assert raw.hipGraphGetNodes(void(graph), room, None) == E.hipErrorInvalidValue


def test_edges_are_added_and_removed_once(graph):
    a, b = add_empty(graph), add_empty(graph)
    one = handles(a), handles(b), 1
    ok(hip.hipGraphAddDependencies(graph, *one))
    assert code(hip.hipGraphAddDependencies(graph, *one)) == E.hipErrorInvalidValue
    ok(hip.hipGraphRemoveDependencies(graph, *one))
    assert code(hip.hipGraphRemoveDependencies(graph, *one)) == E.hipErrorInvalidValue
    itself = hip.hipGraphAddDependencies(graph, handles(a), handles(a), 1)
    assert code(itself) == E.hipErrorInvalidValue


def test_a_cycle_is_found_when_instantiated(graph):
    a = add_empty(graph)
    b = add_empty(graph, a)
    ok(hip.hipGraphAddDependencies(graph, handles(b), handles(a), 1))
    assert code(hip.hipGraphInstantiateWithFlags(graph, 0)) == E.hipErrorInvalidValue


def test_nodes_of_another_graph_are_no_dependencies(graph):
    other = ok(hip.hipGraphCreate(0))
    foreign = add_empty(other)
    assert code(hip.hipGraphAddEmptyNode(graph, *after(foreign))) == E.hipErrorInvalidValue
    mine = add_empty(graph)
    twice = hip.hipGraphAddEmptyNode(graph, *after(mine, mine))
    assert code(twice) == E.hipErrorInvalidValue


def test_types_of_nodes(graph, kernel):
    x = ok(hip.hipMalloc(64))
    arguments = Arguments(x, 16, 1.0)
    event = ok(hip.hipEventCreate())
    child = ok(hip.hipGraphCreate(0))
    nodes = {
        add_fill(graph, x, 0, 16): N.hipGraphNodeTypeMemset,
        add_copy(graph, x, int(x) + 32, 16): N.hipGraphNodeTypeMemcpy,
        add_empty(graph): N.hipGraphNodeTypeEmpty,
        add_host(graph, HOST_FN(lambda _: None), None): N.hipGraphNodeTypeHost,
        ok(hip.hipGraphAddChildGraphNode(graph, None, 0, child)): N.hipGraphNodeTypeGraph,
        ok(hip.hipGraphAddEventRecordNode(graph, None, 0, event)): N.hipGraphNodeTypeEventRecord,
        ok(hip.hipGraphAddEventWaitNode(graph, None, 0, event)): N.hipGraphNodeTypeWaitEvent,
        ok(
            hip.hipGraphAddKernelNode(graph, None, 0, kernel_params(kernel("add_value"), arguments))
        ): N.hipGraphNodeTypeKernel,
    }
    assert {n: ok(hip.hipGraphNodeGetType(n)) for n in nodes} == nodes


def test_parameters_come_back(graph, kernel):
    x = ok(hip.hipMalloc(256))
    arguments = Arguments(x, 40, 2.5)
    function = kernel("add_value")
    node = ok(hip.hipGraphAddKernelNode(graph, None, 0, kernel_params(function, arguments, 3, 32)))
    params = ok(hip.hipGraphKernelNodeGetParams(node))
    assert int(params.func) == int(function)
    assert (params.gridDim.x, params.blockDim.x, params.sharedMemBytes) == (3, 32, 0)
    pointers = (ctypes.c_void_p * 3).from_address(int(params.kernelParams))
    assert ctypes.c_int.from_address(pointers[1]).value == 40
    assert ctypes.c_float.from_address(pointers[2]).value == 2.5
    fill = ok(hip.hipGraphMemsetNodeGetParams(add_fill(graph, x, 7, 9)))
    assert (int(fill.dst), fill.value, fill.width, fill.elementSize) == (int(x), 7, 9, 4)
    copied = ok(hip.hipGraphMemcpyNodeGetParams(add_copy(graph, x, int(x) + 128, 100)))
    assert int(copied.dstPtr.ptr) == int(x) and copied.extent.width == 100
    wrong = hip.hipGraphMemsetNodeGetParams(node)
    assert code(wrong) == E.hipErrorInvalidValue


def test_parameters_of_a_graph_do_not_reach_its_executables(graph, stream):
    x = ok(hip.hipMalloc(64))
    node = add_fill(graph, x, 1, 16)
    executable = instantiate(graph)
    ok(hip.hipGraphMemsetNodeSetParams(node, fill_params(x, 2, 16)))
    run(executable, stream)
    assert (download(x, 16, np.uint32) == 1).all()
    run(instantiate(graph), stream)
    assert (download(x, 16, np.uint32) == 2).all()


def test_executables_change_kernel_parameters(graph, kernel, stream):
    x, y = (upload(np.zeros(64, np.float32)) for _ in range(2))
    function = kernel("add_value")
    first = Arguments(x, 64, 1.0)
    node = ok(hip.hipGraphAddKernelNode(graph, None, 0, kernel_params(function, first)))
    executable = instantiate(graph)
    run(executable, stream)
    second = Arguments(y, 32, 5.0)
    params = kernel_params(function, second)
    ok(hip.hipGraphExecKernelNodeSetParams(executable, node, params))
    run(executable, stream)
    assert (download(x, 64) == 1).all()
    assert (download(y, 64) == np.repeat([5, 0], 32)).all()
    params.blockDim.x = 2000
    bad = hip.hipGraphExecKernelNodeSetParams(executable, node, params)
    assert code(bad) == E.hipErrorInvalidConfiguration


def test_executables_change_copies_fills_and_host_functions(graph, stream):
    x, y = (upload(np.zeros(16, np.uint32)) for _ in range(2))
    out = np.zeros(16, np.uint32)
    seen = []
    note, other = (HOST_FN(lambda d, s=s: seen.append((s, d))) for s in "ab")
    fill = add_fill(graph, x, 1, 16)
    copy = add_copy(graph, out, x, 64, fill, kind=K.hipMemcpyDeviceToHost)
    host = add_host(graph, note, 1, copy)
    executable = instantiate(graph)
    run(executable, stream)
    assert (out == 1).all()
    ok(hip.hipGraphExecMemsetNodeSetParams(executable, fill, fill_params(y, 2, 16)))
    second = np.zeros(16, np.uint32)
    kind = K.hipMemcpyDeviceToHost
    ok(hip.hipGraphExecMemcpyNodeSetParams1D(executable, copy, second, y, 64, kind))
    params = hip.hipHostNodeParams()
    params.fn, params.userData = entry(other), 2
    ok(hip.hipGraphExecHostNodeSetParams(executable, host, params))
    run(executable, stream)
    assert (second == 2).all() and (download(x, 16, np.uint32) == 1).all()
    assert seen == [("a", 1), ("b", 2)]
    wrong = hip.hipGraphExecMemcpyNodeSetParams1D(executable, fill, second, y, 64, kind)
    assert code(wrong) == E.hipErrorInvalidValue
    foreign = add_empty(ok(hip.hipGraphCreate(0)))
    wrong = hip.hipGraphExecHostNodeSetParams(executable, foreign, params)
    assert code(wrong) == E.hipErrorInvalidValue


def test_updating_an_executable_from_a_graph_of_equal_shape(stream):
    x = ok(hip.hipMalloc(64))

    def make(value):
        graph = ok(hip.hipGraphCreate(0))
        first = add_fill(graph, x, value, 16)
        add_empty(graph, first)
        return graph

    executable = instantiate(make(1))
    result = hip.hipGraphExecUpdate(executable, make(2), None)
    assert ok(result) == U.hipGraphExecUpdateSuccess
    run(executable, stream)
    assert (download(x, 16, np.uint32) == 2).all()


def test_updates_that_change_the_shape_are_refused(stream):
    x = ok(hip.hipMalloc(64))

    def make(kind):
        graph = ok(hip.hipGraphCreate(0))
        first = add_fill(graph, x, 1, 16)
        if kind == "chain":
            add_fill(graph, x, 2, 16, first)
        elif kind == "free":
            add_fill(graph, x, 2, 16)
        elif kind == "type":
            add_empty(graph, first)
        elif kind == "longer":
            add_fill(graph, x, 3, 16, add_fill(graph, x, 2, 16, first))
        return graph

    executable = instantiate(make("chain"))
    expected = {
        "chain": (E.hipSuccess, U.hipGraphExecUpdateSuccess),
        "free": (E.hipErrorGraphExecUpdateFailure, U.hipGraphExecUpdateErrorTopologyChanged),
        "type": (E.hipErrorGraphExecUpdateFailure, U.hipGraphExecUpdateErrorNodeTypeChanged),
        "longer": (E.hipErrorGraphExecUpdateFailure, U.hipGraphExecUpdateErrorTopologyChanged),
        "short": (E.hipErrorGraphExecUpdateFailure, U.hipGraphExecUpdateErrorTopologyChanged),
    }
    got = {kind: hip.hipGraphExecUpdate(executable, make(kind), None)[:2] for kind in expected}
    assert got == expected
    run(executable, stream)  # still as it was
    assert (download(x, 16, np.uint32) == 2).all()


def test_clones_are_independent(graph, stream):
    x = ok(hip.hipMalloc(64))
    node = add_fill(graph, x, 1, 16)
    clone = ok(hip.hipGraphClone(graph))
    twin = ok(hip.hipGraphNodeFindInClone(node, clone))
    assert int(twin) != int(node)
    ok(hip.hipGraphMemsetNodeSetParams(node, fill_params(x, 9, 16)))
    ok(hip.hipGraphDestroy(graph))
    run(instantiate(clone), stream)
    assert (download(x, 16, np.uint32) == 1).all()
    assert code(hip.hipGraphNodeFindInClone(node, clone)) == E.hipErrorInvalidValue


def test_child_graphs_are_copied_into_their_node(graph, stream):
    x = ok(hip.hipMalloc(64))
    child = ok(hip.hipGraphCreate(0))
    inner = add_fill(child, x, 5, 16)
    before = add_fill(graph, x, 1, 16)
    node = ok(hip.hipGraphAddChildGraphNode(graph, *after(before), child))
    out = np.zeros(16, np.uint32)
    add_copy(graph, out, x, 64, node, kind=K.hipMemcpyDeviceToHost)
    ok(hip.hipGraphMemsetNodeSetParams(inner, fill_params(x, 6, 16)))
    ok(hip.hipGraphDestroy(child))
    executable = instantiate(graph)
    run(executable, stream)
    assert (out == 5).all()
    owned = ok(hip.hipGraphChildGraphNodeGetGraph(node))
    (inside,) = all_nodes(raw.hipGraphGetNodes, owned)
    ok(hip.hipGraphExecMemsetNodeSetParams(executable, inside, fill_params(x, 7, 16)))
    run(executable, stream)
    assert (out == 7).all()
    assert code(hip.hipGraphDestroy(owned)) == E.hipErrorInvalidValue
    replacement = ok(hip.hipGraphCreate(0))
    add_fill(replacement, x, 8, 16)
    ok(hip.hipGraphExecChildGraphNodeSetParams(executable, node, replacement))
    run(executable, stream)
    assert (out == 8).all()


def test_nested_child_graphs(stream):
    x = ok(hip.hipMalloc(64))
    inner = ok(hip.hipGraphCreate(0))
    add_fill(inner, x, 3, 16)
    for _ in range(5):
        outer = ok(hip.hipGraphCreate(0))
        ok(hip.hipGraphAddChildGraphNode(outer, None, 0, inner))
        inner = outer
    run(instantiate(inner), stream)
    assert (download(x, 16, np.uint32) == 3).all()


def test_event_nodes_record_and_wait(graph, stream):
    event = ok(hip.hipEventCreate())
    first = ok(hip.hipGraphAddEventWaitNode(graph, None, 0, event))
    ok(hip.hipGraphAddEventRecordNode(graph, *after(first), event))
    assert int(ok(hip.hipGraphEventWaitNodeGetEvent(first))) == int(event)
    executable = instantiate(graph)
    for _ in range(3):
        run(executable, stream)
        ok(hip.hipEventQuery(event))
    assert ok(hip.hipEventElapsedTime(event, event)) == 0


def test_steps_can_be_switched_off(graph, stream):
    x = upload(np.zeros(16, np.uint32))
    node = add_fill(graph, x, 1, 16)
    executable = instantiate(graph)
    ok(hip.hipGraphNodeSetEnabled(executable, node, 0))
    assert ok(hip.hipGraphNodeGetEnabled(executable, node)) == 0
    run(executable, stream)
    assert (download(x, 16, np.uint32) == 0).all()
    ok(hip.hipGraphNodeSetEnabled(executable, node, 1))
    run(executable, stream)
    assert (download(x, 16, np.uint32) == 1).all()


def test_memory_of_a_graph_lives_as_long_as_its_executables(stream):
    graph = ok(hip.hipGraphCreate(0))
    before = used_bytes()
    params = hip.hipMemAllocNodeParams()
    params.poolProps.location.type = hip.hipMemLocationType.hipMemLocationTypeDevice
    params.bytesize = 4096
    node = ok(hip.hipGraphAddMemAllocNode(graph, None, 0, params))
    pointer = int(params.dptr)
    use = add_fill(graph, pointer, 4, 16, node)
    ok(hip.hipGraphAddMemFreeNode(graph, *after(use), pointer))
    executable = instantiate(graph)
    ok(hip.hipGraphDestroy(graph))
    run(executable, stream)
    assert used_bytes() == before + 4096
    ok(hip.hipGraphExecDestroy(executable))
    assert used_bytes() == before


def test_destroyed_nodes_and_graphs_are_gone(graph):
    a = add_empty(graph)
    b = add_empty(graph, a)
    ok(hip.hipGraphDestroyNode(a))
    assert all_nodes(raw.hipGraphGetNodes, graph) == [int(b)]
    assert all_nodes(raw.hipGraphNodeGetDependencies, b) == []
    assert code(hip.hipGraphDestroyNode(a)) == E.hipErrorInvalidValue
    ok(hip.hipGraphDestroy(graph))
    assert code(hip.hipGraphNodeGetType(b)) == E.hipErrorInvalidValue
    assert code(hip.hipGraphDestroy(graph)) == E.hipErrorInvalidValue
    assert code(hip.hipGraphAddEmptyNode(graph, None, 0)) == E.hipErrorInvalidValue


def test_executables_outlive_their_graph_and_module(graph, chip, image, stream):
    module = ok(hip.hipModuleLoadData(image(chip).read_bytes()))
    function = ok(hip.hipModuleGetFunction(module, b"add_value"))
    x = upload(np.zeros(64, np.float32))
    arguments = Arguments(x, 64, 1.0)
    ok(hip.hipGraphAddKernelNode(graph, None, 0, kernel_params(function, arguments)))
    executable = instantiate(graph)
    ok(hip.hipGraphDestroy(graph))
    ok(hip.hipModuleUnload(module))
    run(executable, stream)
    assert (download(x, 64) == 1).all()
    ok(hip.hipGraphExecDestroy(executable))
    assert code(hip.hipGraphLaunch(executable, stream)) == E.hipErrorInvalidValue
    assert code(hip.hipGraphExecDestroy(executable)) == E.hipErrorInvalidValue


def test_bad_parameters_are_refused_when_added(graph, kernel):
    x = ok(hip.hipMalloc(64))
    arguments = Arguments(x, 16, 1.0)
    params = kernel_params(kernel("add_value"), arguments, block=0)
    bad = hip.hipGraphAddKernelNode(graph, None, 0, params)
    assert code(bad) == E.hipErrorInvalidConfiguration
    params = kernel_params(0x1230, arguments)
    bad = hip.hipGraphAddKernelNode(graph, None, 0, params)
    assert code(bad) == E.hipErrorInvalidDeviceFunction
    bad = hip.hipGraphAddMemsetNode(graph, None, 0, fill_params(x, 1, 17))
    assert code(bad) == E.hipErrorInvalidValue
    bad = hip.hipGraphAddMemsetNode(graph, None, 0, fill_params(x, 1, 1, element=3))
    assert code(bad) == E.hipErrorInvalidValue
    out = np.zeros(64, np.uint8)
    kind = K.hipMemcpyDeviceToHost
    bad = hip.hipGraphAddMemcpyNode1D(graph, None, 0, out, x, 65, kind)
    assert code(bad) == E.hipErrorInvalidValue
    assert all_nodes(raw.hipGraphGetNodes, graph) == []
    assert code(hip.hipGraphCreate(1)) == E.hipErrorInvalidValue
    assert code(hip.hipGraphInstantiateWithFlags(graph, 1 << 20)) == E.hipErrorInvalidValue


def test_graphs_print_as_dot(graph, kernel, tmp_path):
    x = ok(hip.hipMalloc(64))
    arguments = Arguments(x, 16, 1.0)
    first = add_fill(graph, x, 0, 16)
    params = kernel_params(kernel("add_value"), arguments)
    ok(hip.hipGraphAddKernelNode(graph, *after(first), params))
    path = tmp_path / "graph.dot"
    ok(hip.hipGraphDebugDotPrint(graph, str(path).encode(), 1))
    text = path.read_text()
    assert text.startswith("digraph") and text.rstrip().endswith("}")
    assert "MEMSET" in text and "add_value" in text
    assert len(re.findall(r'" -> "', text)) == 1
    bad = hip.hipGraphDebugDotPrint(graph, b"/no/such/folder/x.dot", 1)
    assert code(bad) == E.hipErrorOperatingSystem


def test_user_objects_are_destroyed_with_their_last_owner(graph):
    seen = []
    destroy = HOST_FN(lambda data: seen.append(data))
    handle = ctypes.c_void_p()
    assert raw.hipUserObjectCreate(ctypes.byref(handle), void(0x51), destroy, 2, 1) == 0
    assert raw.hipGraphRetainUserObject(void(graph), handle, 1, 1) == 0  # one moves
    assert raw.hipUserObjectRelease(handle, 1) == 0
    assert seen == []
    clone = ok(hip.hipGraphClone(graph))
    ok(hip.hipGraphDestroy(graph))
    assert seen == []
    ok(hip.hipGraphDestroy(clone))
    assert seen == [0x51]
    assert raw.hipUserObjectRelease(handle, 1) == E.hipErrorInvalidValue


def test_large_graphs(graph, stream):
    x = ok(hip.hipMalloc(4096))
    previous = []
    for i in range(1000):
        previous = [add_fill(graph, int(x) + 4 * i, i, 1, *previous)]
    run(instantiate(graph), stream)
    assert (download(x, 1000, np.uint32) == np.arange(1000)).all()
