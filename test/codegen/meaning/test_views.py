"""Views are index maps: they add no loop nest of their own."""

from test.codegen.meaning.cases import Case, check


def view(name: str, source: str, body: str, result: str) -> Case:
    return Case(
        name,
        f"%x: tensor<{source}>",
        f"%y = mgx.{body} : tensor<{source}> -> tensor<{result}>",
        f"%y: tensor<{result}>",
    )


def test_views_give_the_elements_of_their_operand() -> None:
    check(
        [
            view("reshape", "2x3x4xf32", "reshape %x", "4x6xf32"),
            view("reshape_to_scalar", "1x1xf32", "reshape %x", "f32"),
            view("reshape_of_scalar", "f32", "reshape %x", "1x1xf32"),
            view("reshape_units", "1x4x1x3xi8", "reshape %x", "4x1x3x1xi8"),
            view("squeeze", "2x1x3xf16", "squeeze %x axes = [1]", "2x3xf16"),
            view("unsqueeze", "2x3xi1", "unsqueeze %x axes = [0, 2]", "1x2x1x3xi1"),
            view("flatten", "2x3x4xf32", "flatten %x axis = 2", "6x4xf32"),
            view("flatten_all", "2x3x4xf32", "flatten %x axis = 0", "1x24xf32"),
            view("transpose", "2x3x4xf32", "transpose %x permutation = [2, 0, 1]", "4x2x3xf32"),
            view("multibroadcast", "3x1xf32", "multibroadcast %x", "2x3x4xf32"),
            view("broadcast", "3xf32", "broadcast %x axis = 1", "2x3x4x4xf32"),
            view(
                "slice",
                "4x5xf32",
                "slice %x axes = [0, 1] starts = [1, 0] ends = [3, 4]",
                "2x4xf32",
            ),
            view("step", "2x5xui8", "step %x axes = [1] steps = [2]", "2x3xui8"),
            view(
                "slice_of_one", "4x5xf32", "slice %x axes = [0] starts = [0] ends = [1]", "1x5xf32"
            ),
            view("dimensions", "4x5xf32", "dimensions_of %x start = 0 end = 2", "2xi64"),
            view("reverse", "3x4xf64", "reverse %x axes = [0, 1]", "3x4xf64"),
            Case(
                "contiguous",
                "%x: tensor<2x3xf32>",
                "%y = mgx.contiguous %x : tensor<2x3xf32>",
                "%y: tensor<2x3xf32>",
            ),
            Case(
                "identity_twice",
                "%x: tensor<2x3xf32>",
                "%y = mgx.identity %x : tensor<2x3xf32>",
                "%y: tensor<2x3xf32>, %y: tensor<2x3xf32>",
            ),
        ]
    )


def test_chains_of_views_and_pointwise_ops_compose() -> None:
    check(
        [
            Case(
                "channel_shuffle",
                "%x: tensor<1x6x2x2xf32>",
                """
          %a = mgx.reshape %x : tensor<1x6x2x2xf32> -> tensor<1x2x3x2x2xf32>
          %b = mgx.transpose %a permutation = [0, 2, 1, 3, 4]
              : tensor<1x2x3x2x2xf32> -> tensor<1x3x2x2x2xf32>
          %y = mgx.reshape %b : tensor<1x3x2x2x2xf32> -> tensor<1x6x2x2xf32>
          """,
                "%y: tensor<1x6x2x2xf32>",
            ),
            Case(
                "reshape_inside",
                "%x: tensor<4x6xf32>, %z: tensor<24xf32>",
                """
          %t = mgx.transpose %x permutation = [1, 0] : tensor<4x6xf32> -> tensor<6x4xf32>
          %f = mgx.reshape %t : tensor<6x4xf32> -> tensor<3x8xf32>
          %s = mgx.slice %f axes = [1] starts = [1] ends = [7] : tensor<3x8xf32> -> tensor<3x6xf32>
          %v = mgx.reverse %s axes = [1] : tensor<3x6xf32> -> tensor<3x6xf32>
          %w = mgx.slice %z axes = [0] starts = [0] ends = [18] : tensor<24xf32> -> tensor<18xf32>
          %u = mgx.reshape %w : tensor<18xf32> -> tensor<3x6xf32>
          %y = mgx.add %u, %v : tensor<3x6xf32>, tensor<3x6xf32> -> tensor<3x6xf32>
          """,
                "%y: tensor<3x6xf32>, %v: tensor<3x6xf32>",
            ),
            Case(
                "broadcast_of_computed",
                "%x: tensor<3xf32>, %z: tensor<2x3xf32>",
                """
          %e = mgx.erf %x : tensor<3xf32>
          %t = mgx.tanh %e : tensor<3xf32>
          %s = mgx.exp %t : tensor<3xf32>
          %b = mgx.multibroadcast %s : tensor<3xf32> -> tensor<2x3xf32>
          %y = mgx.mul %b, %z : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
          """,
                "%y: tensor<2x3xf32>",
            ),
            Case(
                "constants",
                "%x: tensor<2x3xui8>",
                """
          %c = mgx.constant dense<[[1, 2, 3], [250, 251, 252]]> : tensor<2x3xui8>
          %d = mgx.constant dense<200> : tensor<2x3xui8>
          %s = mgx.add %x, %c : tensor<2x3xui8>, tensor<2x3xui8> -> tensor<2x3xui8>
          %y = mgx.max %s, %d : tensor<2x3xui8>, tensor<2x3xui8> -> tensor<2x3xui8>
          """,
                "%y: tensor<2x3xui8>",
            ),
        ]
    )
