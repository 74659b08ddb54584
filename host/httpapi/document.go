package httpapi

var documentRoutes = []route{}
